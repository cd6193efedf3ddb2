"""A harness that sets up a cluster, injects faults, reports that, and waits to be killed."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from harness.environments.docker.environment import DockerEnvironment
from harness.environments.local.environment import LocalEnvironment
from harness.environments.machine.environment import MachineEnvironment
from harness.store.journal import Journal
from nemesis.capabilities.disks import Trouble
from nemesis.capabilities.shapes import Shape
from tests.support.stand_in import StandIn, order

_SOURCES = Path(__file__).parents[3]
_TROUBLES: dict[str, Trouble] = {"fuse": "stall", "ext4": "full"}


def main() -> None:
    """Arguments: run directory, network (`docker`: that of containers), page cache."""
    directory, network, page_cache = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    environment: MachineEnvironment
    if network == "docker":
        environment = DockerEnvironment(
            directory, StandIn(), brokers=2, page_cache=page_cache, sources=[_SOURCES], journal=Journal(directory)
        )
    else:
        environment = LocalEnvironment(
            directory, StandIn(), brokers=2, network=network, page_cache=page_cache, journal=Journal(directory)
        )
    environment.set_up()
    environment.await_ready(20)
    order(environment.plans[0], do="append", file="a", bytes=1000, sync=False)
    client = environment.spawn_client(["sleep", "600"], directory / "client.log")
    cluster = environment.cluster
    cluster.network.block(frozenset({(1, 2), (2, 1)}))
    cluster.nodes[2].pause()
    cluster.nodes[1].throttle(20)
    if network != "proxies":
        cluster.network.shape(frozenset({(0, 1)}), Shape(delay_ms=50))
    if page_cache in _TROUBLES:
        cluster.nodes[1].disk.make_trouble(_TROUBLES[page_cache])
    pids = [client.pid, *(node.pid for node in cluster.nodes.values())]
    print(json.dumps({"pids": pids, "sockets": str(environment.plans[0].socket.parent)}), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
