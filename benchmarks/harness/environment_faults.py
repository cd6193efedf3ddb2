"""Measures an environment: start of the nodes, a partition, and recovery from a power failure.

    python -m benchmarks.harness.environment_faults [--environment local|docker|ssh] [--brokers 5]

Targets, on an otherwise idle machine: five nodes up in 5 s (`docker`: 15 s), any partition in 50 ms, a kill with
page-cache loss and the restart in 2 s (`local`). `ssh` means VMs: three up from a cached template in 30 s.

A node is back when it has recovered its logs and listens. It serves again when the controller unfences it, which is
not before its earlier session has expired (RG-2): after 3 s with the settings of a run, and 9 s with Kafka's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from harness.environments import factory
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.kernel.process_identity import wait_until
from harness.environments.ssh.environment import SshEnvironment
from harness.spec.spec import Spec
from harness.store.journal import Journal
from harness.systems.admin_endpoint import state_of
from harness.systems.own.harrow_broker import HarrowBroker
from nemesis.capabilities.shapes import PLAIN, Shape

PATIENCE_S = 120.0
REPEATS = 10
KILLS = 5


def seconds(work: Callable[[], None]) -> float:
    """Seconds of wall time that the work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=5)
    parser.add_argument("--environment", choices=("local", "docker", "ssh"), default="local")
    arguments = parser.parse_args()
    vms = arguments.brokers if arguments.environment == "ssh" else 0
    spec = Spec(seed=1, brokers=arguments.brokers, environment=arguments.environment, vms=vms)
    with tempfile.TemporaryDirectory(prefix="harrow-benchmark-") as name:
        directory = Path(name)
        # Mechanisms are tried when it is made, which takes a moment, and for containers makes the image.
        environment = factory.make(spec, frozenset(), directory, HarrowBroker(spec), Journal(directory))
        assert isinstance(environment, MachineEnvironment | SshEnvironment)
        try:
            measure(environment)
        finally:
            environment.tear_down()


def measure(environment: MachineEnvironment | SshEnvironment) -> None:
    started = seconds(environment.set_up)
    served = started + seconds(lambda: environment.await_ready(PATIENCE_S))
    print(f"{len(environment.plans)} nodes started: {started:.2f} s, up: {served:.2f} s")
    network, nodes = environment.cluster.network, environment.cluster.nodes
    ends = network.endpoints
    links = frozenset((a, b) for a in ends for b in ends if a != b)
    cuts = [(seconds(lambda: network.block(links)), seconds(lambda: network.unblock(links))) for _ in range(REPEATS)]
    for what, times in (("cut", [cut for cut, _ in cuts]), ("mended", [mended for _, mended in cuts])):
        print(f"{len(links)} links {what}: median {median(times) * 1000:.1f} ms, worst {max(times) * 1000:.1f} ms")
    if "network-shaping" in environment.capabilities:
        shaped = [seconds(lambda: network.shape(links, Shape(delay_ms=1))) for _ in range(REPEATS)]
        network.shape(links, PLAIN)
        print(f"{len(links)} links shaped: first {shaped[0] * 1000:.0f} ms, median {median(shaped[1:]) * 1000:.1f} ms")
    node = nodes[1]

    def crash_and_come_back() -> None:
        node.kill()
        node.lose_page_cache()
        node.start()
        wait_until(lambda: state_of(node.plan) is not None, PATIENCE_S, 0.01)

    backs, serves = [], []
    for _ in range(KILLS):
        backs.append(seconds(crash_and_come_back))
        serves.append(backs[-1] + seconds(lambda: node.await_ready(PATIENCE_S)))
    summary = f"back after {median(backs):.2f} s, served again after {median(serves):.2f} s"
    print(f"kill, page-cache loss and restart: {summary} (medians; {environment.mechanisms['page-cache-loss']})")


if __name__ == "__main__":
    main()
