"""Owns an interactive cluster: `python -m harness.interactive.daemon DIRECTORY SPEC` with the spec as JSON.

It prints `ready` once every node serves, or one line on standard error and ends with status 4. It ends, and takes the
cluster down, when it is ordered to, or gets SIGTERM.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.environments import registry
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.kernel.sockets import place_for_sockets
from harness.interactive.protocol import ABOUT
from harness.run.stopping import Stop, on_signals
from harness.spec.spec import Spec, from_json
from harness.store.durable import sync_directory
from harness.store.journal import Journal
from harness.systems.selection import make
from harness.terminal.exits import Exit
from nemesis.capabilities.cluster import CLIENTS, NodeError, is_broker
from nemesis.clock import RealClock
from nemesis.faults import KINDS
from nemesis.faults.base import Site
from nemesis.runner import NemesisRunner, Row
from nemesis.schedule import Schedule, ScheduledFault, parts
from nemesis.targets import FaultTarget

READY_S = 60.0
_ACCEPT_S = 0.2
_HEAL_S = 60.0

Say = Callable[[Mapping[str, object]], None]


class Owner:
    """A cluster, and what may be asked of it."""

    def __init__(self, environment: MachineEnvironment, journal: Journal, stop: Stop) -> None:
        self._environment = environment
        self._journal = journal
        self._stop = stop
        self._one_fault_at_a_time = threading.Lock()

    def obey(self, request: Mapping[str, Any], say: Say) -> None:
        """Carry out one order. Raises `NodeError`."""
        match request:
            case {"do": "status"}:
                self._status(say)
            case {"do": "fault", **wanted}:
                self._fault(wanted, say)
            case {"do": "down"}:
                self._stop.request()
            case _:
                raise NodeError(f"expected an order that the owner of a cluster knows, found {dict(request)}")

    def _status(self, say: Say) -> None:
        cluster = self._environment.cluster
        for node_id, node in sorted(cluster.nodes.items()):
            state = (
                "serves"
                if node.is_ready()
                else "paused"
                if node.is_paused()
                else "alive"
                if node.is_alive()
                else "dead"
            )
            say({"node": node_id, "role": node.role, "pid": node.pid, "state": state})
        for view in cluster.partitions():
            say({"topic": view.topic, "partition": view.partition, "leader": view.leader, "isr": view.isr})

    def _fault(self, wanted: Mapping[str, Any], say: Say) -> None:
        """Fire one fault and see it through, as the conductor of a run does."""
        target = FaultTarget(wanted["role"], wanted["partition"])
        entry = ScheduledFault(1, 0, wanted["kind"], target, wanted["lasts_ms"], wanted["parameters"])

        def journal(kind: str, details: Row) -> None:
            self._journal.record(kind, **details)

        with self._one_fault_at_a_time:
            conductor = NemesisRunner(
                Site.of(self._environment.cluster, RealClock(time.monotonic_ns)),
                Schedule((entry,)),
                journal,
                lambda row: say({"took_hold": row["took_hold"], "healed": row["healed"]}),
                lambda note: say({"note": note}),
                lossy_budget=len(self._environment.plans),
            )
            now_ns = time.monotonic_ns()
            end_ns = now_ns + int((wanted["lasts_ms"] / 1000 + _HEAL_S) * 1e9)
            conductor.run(now_ns, end_ns, lambda: self._stop.requested)


def serve(owner: Owner, listener: socket.socket, stop: Stop) -> None:
    """Take orders until the cluster is to be taken down."""
    listener.settimeout(_ACCEPT_S)
    while not stop.requested:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        threading.Thread(target=_converse, args=(owner, connection), daemon=True).start()


def _converse(owner: Owner, connection: socket.socket) -> None:
    def say(thing: Mapping[str, object]) -> None:
        connection.sendall(json.dumps(thing).encode() + b"\n")

    with connection, connection.makefile("rb") as lines:
        try:
            try:
                owner.obey(json.loads(next(iter(lines))), say)
            except (NodeError, OSError, KeyError, TypeError) as error:
                say({"error": " ".join(str(error).split())})
            else:
                say({"end": True})
        except ConnectionError:  # nobody listens any more; what was ordered has been done
            return


def stand(directory: Path, spec: Spec, stop: Stop) -> None:
    """Set a cluster up, own it until told to take it down. Raises `EnvironmentFailed`, `NodeError`."""
    journal = Journal(directory)
    needs = frozenset().union(*(KINDS[part].needs for name in spec.faults for part in parts(name)))
    environment = registry.make(spec, needs, directory, make(spec), journal)
    assert isinstance(environment, MachineEnvironment)
    with tempfile.TemporaryDirectory(prefix="harrow-cluster-", dir=place_for_sockets()) as place:
        try:
            environment.set_up()
            environment.await_ready(READY_S)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(f"{place}/orders")
                listener.listen()
                _announce(directory, environment, f"{place}/orders")
                print("ready", flush=True)
                serve(Owner(environment, journal, stop), listener, stop)
        finally:
            environment.tear_down()
            journal.finish()
            (directory / ABOUT).unlink(missing_ok=True)


def _announce(directory: Path, environment: MachineEnvironment, orders: str) -> None:
    brokers = [plan.node_id for plan in environment.plans if is_broker(plan)]
    reached = (environment.addresses.reach(CLIENTS, broker, "CLIENT") for broker in brokers)
    known = {"socket": orders, "bootstrap": [f"{host}:{port}" for host, port in reached]}
    (directory / ABOUT).write_text(json.dumps(known))
    sync_directory(directory)


def main(arguments: Sequence[str]) -> int:
    """Own a cluster."""
    stop = Stop()
    try:
        with on_signals(stop):
            stand(Path(arguments[0]), from_json(arguments[1]), stop)
    except Exception as error:  # whatever it is, whoever waits for the cluster must hear of it in a line
        print(" ".join(str(error).split()), file=sys.stderr, flush=True)
        return Exit.FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
