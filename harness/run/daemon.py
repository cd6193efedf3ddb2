"""Runs an interactive cluster: `python -m harness.run.daemon DIRECTORY SPEC SPARE` with the specification as JSON.

The last `SPARE` of its brokers are not started before they are added.

The daemon owns the cluster of `harrow cluster`, as the harness owns the cluster of a run, and answers requests over a
Unix socket (`harness.run.daemon_client`). Its directory is a run's directory with a journal, so that `harrow heal`
works on it.

It prints `ready` once every node serves; otherwise it prints one line on standard error and ends with status 4. It
stops the cluster and ends on the request `down` or on SIGTERM.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from common.atomic_files import replacing
from harness.environments import factory
from harness.environments.base import FIT_S, EnvironmentFailed, Traits
from harness.environments.common.layout import place_for_sockets
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.helpers.programs import module_command
from harness.environments.machine.kernel.process_identity import wait_until
from harness.run.daemon_client import ABOUT
from harness.run.stopping import Stop, on_signals
from harness.spec.spec import Spec, from_json
from harness.store.journal import Journal
from harness.systems.factory import make_system
from harness.terminal.exits import ExitStatus
from nemesis.capabilities.cluster import CLIENTS, NodeError, is_broker
from nemesis.faults.base import Bounds, NemesisClock, Site
from nemesis.recipes import kinds_in
from nemesis.runner import NemesisRunner, Row
from nemesis.schedule import Schedule, ScheduledFault
from nemesis.targets import FaultTarget

READY_S = 60.0
_ACCEPT_S = 0.2
_HEAL_S = 60.0
_SPREAD_S = 300.0

Send = Callable[[Mapping[str, object]], None]


class Daemon:
    """Answers requests about one cluster."""

    def __init__(
        self,
        environment: MachineEnvironment,
        journal: Journal,
        stop: Stop,
        traits: Traits,
        announce: Callable[[], None],
    ) -> None:
        """`announce` writes down where the brokers are that clients can ask."""
        self._environment = environment
        self._traits = traits
        self._announce = announce
        self._spare = sorted(environment.spare)
        self._journal = journal
        self._stop = stop
        self._one_at_a_time = threading.Lock()

    def handle(self, request: Mapping[str, Any], send: Send) -> None:
        """Carry out one request. Raises `NodeError`."""
        match request:
            case {"do": "status"}:
                self._status(send)
            case {"do": "fault", **wanted}:
                self._fault(wanted, send)
            case {"do": "add-brokers"}:
                self._add_brokers(send)
            case {"do": "down"}:
                self._stop.request()
            case _:
                raise NodeError(f"expected a request that the daemon knows, found {dict(request)}")

    def _status(self, send: Send) -> None:
        cluster = self._environment.cluster
        for node_id, node in sorted(cluster.nodes.items()):
            state = (
                "serves"
                if node.is_ready()
                else "paused"
                if node.is_paused()
                else "alive"
                if node.is_alive()
                else "spare"
                if node_id in self._environment.spare
                else "dead"
            )
            send({"node": node_id, "role": node.role, "pid": node.pid, "state": state})
        for view in cluster.partitions():
            send({"topic": view.topic, "partition": view.partition, "leader": view.leader, "isr": view.isr})

    def _fault(self, wanted: Mapping[str, Any], send: Send) -> None:
        """Inject, verify and heal one fault, as the nemesis runner of a run does."""
        target = FaultTarget(wanted["role"], wanted["partition"])
        entry = ScheduledFault(1, 0, wanted["kind"], target, wanted["lasts_ms"], wanted["parameters"])

        def journal(kind: str, details: Row) -> None:
            self._journal.record(kind, **details)

        with self._one_at_a_time:
            runner = NemesisRunner(
                Site.of(
                    self._environment.cluster,
                    NemesisClock(time.monotonic_ns),
                    Bounds(heal_s=self._traits.start_s, stop_s=self._traits.stop_s),
                    self._traits.orderly_exits,
                ),
                Schedule((entry,)),
                journal,
                lambda row: send({"took_hold": row["took_hold"], "healed": row["healed"]}),
                lambda note: send({"note": note}),
                lossy_budget=len(self._environment.plans),
            )
            now_ns = time.monotonic_ns()
            end_ns = now_ns + int((wanted["lasts_ms"] / 1000 + _HEAL_S) * 1e9)
            runner.run(now_ns, end_ns, lambda: self._stop.requested)

    def _add_brokers(self, send: Send) -> None:
        """Start the spare brokers, and have partitions moved onto them. Raises `NodeError`."""
        with self._one_at_a_time:
            for node_id in self._spare:
                node = self._environment.cluster.nodes[node_id]
                if not node.is_alive():
                    node.start()
                node.await_ready(max(READY_S, self._traits.start_s))
                send({"note": f"broker {node_id} serves"})
            self._environment.spare = frozenset()
            self._announce()
            self._spread(send)

    def _spread(self, send: Send) -> None:
        config = {"bootstrap": _bootstrap(self._environment), "onto": self._spare, "timeout_s": _SPREAD_S}
        log = self._environment.plans[0].directory.parent / "spreading.log"
        process = self._environment.spawn_client(module_command("harness.systems.spreading", json.dumps(config)), log)
        process.stdin.close()
        with process.stdout as lines:
            for line in lines:
                send(json.loads(line))
        if process.wait(_HEAL_S) != 0:
            raise NodeError(log.read_text(errors="replace").splitlines()[-1])


def serve(daemon: Daemon, listener: socket.socket, stop: Stop) -> None:
    """Answer requests until the cluster is to be stopped."""
    listener.settimeout(_ACCEPT_S)
    while not stop.requested:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        threading.Thread(target=_answer, args=(daemon, connection), daemon=True).start()


def _answer(daemon: Daemon, connection: socket.socket) -> None:
    def send(reply: Mapping[str, object]) -> None:
        connection.sendall(json.dumps(reply).encode() + b"\n")

    with connection, connection.makefile("rb") as lines:
        try:
            try:
                daemon.handle(json.loads(next(iter(lines))), send)
            except (NodeError, OSError, KeyError, TypeError) as error:
                send({"error": " ".join(str(error).split())})
            else:
                send({"end": True})
        except ConnectionError:  # the client is gone; the request has been carried out
            return


def run_cluster(directory: Path, spec: Spec, spare: int, stop: Stop) -> None:
    """Set a cluster up, and run it until it is to be stopped. Raises `EnvironmentFailed`, `NodeError`."""
    journal = Journal(directory)
    needs = frozenset().union(*(kind.needs for kind in kinds_in(spec.faults)))
    system = make_system(spec)
    environment = factory.make(spec, needs, directory, system, journal)
    assert isinstance(environment, MachineEnvironment)
    brokers = [plan.node_id for plan in environment.plans if is_broker(plan)]
    environment.spare = frozenset(brokers[len(brokers) - spare :])
    started = [plan for plan in environment.plans if plan.node_id not in environment.spare]
    with tempfile.TemporaryDirectory(prefix="harrow-cluster-", dir=place_for_sockets()) as sockets:
        try:
            environment.set_up()
            environment.await_ready(max(READY_S, system.traits.start_s))
            fit = wait_until(lambda: system.unfit(started) is None, FIT_S * spec.pace, 0.25)
            if not fit and (why := system.unfit(started)):
                raise EnvironmentFailed(why)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(f"{sockets}/requests")
                listener.listen()
                announce = partial(_announce, directory, environment, f"{sockets}/requests", spare)
                announce()
                print("ready", flush=True)
                serve(Daemon(environment, journal, stop, system.traits, announce), listener, stop)
        finally:
            environment.tear_down()
            journal.finish()
            (directory / ABOUT).unlink(missing_ok=True)


def _bootstrap(environment: MachineEnvironment) -> list[str]:
    brokers = [plan.node_id for plan in environment.plans if is_broker(plan) and plan.node_id not in environment.spare]
    reached = (environment.addresses.reach(CLIENTS, broker, "CLIENT") for broker in brokers)
    return [f"{host}:{port}" for host, port in reached]


def _announce(directory: Path, environment: MachineEnvironment, socket_path: str, spare: int) -> None:
    known = {"socket": socket_path, "bootstrap": _bootstrap(environment), "spare": spare}
    with replacing(directory / ABOUT, sync=True) as unfinished:
        unfinished.write_text(json.dumps(known))


def main(arguments: Sequence[str]) -> int:
    """Run a cluster."""
    stop = Stop()
    try:
        with on_signals(stop):
            run_cluster(Path(arguments[0]), from_json(arguments[1]), int(arguments[2]), stop)
    except Exception as error:  # `harrow cluster up` waits for the cluster and prints this line
        print(" ".join(str(error).split()), file=sys.stderr, flush=True)
        return ExitStatus.FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
