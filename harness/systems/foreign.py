"""A system under test that is known from a definition file alone: any broker that speaks Kafka's protocol.

Beside each node's broker an attendant (`harness.systems.attendant`) asks it over the protocol and tells what it
learned at the socket at which Harrow's own broker tells what it believes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.environments.base import Addresses, LogRecord, NodePlan, ReplicaState, Traits
from harness.spec import Spec, SpecError
from harness.systems.admin_endpoint import (
    log_of,
    newest_views,
    replica_of,
    state_of,
    states_of_brokers,
    states_of_controllers,
)
from harness.systems.attendant.orders import Orders
from harness.systems.definition import Command, Definition, NodeKind
from harness.systems.templating import CLIENT, TemplateError, fill, names_in, node_names, outer_names
from nemesis.cluster import CLIENTS, Capability, NodeRole, PartitionView, VoterView, is_broker

ORDERS_NAME = "attendant.json"
_VALUE_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class ForeignBroker:
    """Implements `harness.environments.base.System`."""

    spec: Spec
    definition: Definition
    values: Mapping[str, str]  # what the definition's commands printed
    version: str | None
    _names: dict[int, Mapping[str, object]] = field(default_factory=dict)  # node id → what its templates may name

    @property
    def name(self) -> str:
        """As the definition calls it."""
        return self.definition.name

    @property
    def traits(self) -> Traits:
        """What the definition, and the protocol, make of it."""
        versions = {} if self.version is None else {self.name: self.version}
        return Traits(tells_followers=False, volatile=self.definition.keeps == "memory", versions=versions)

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:
        """What the definition says, and what it takes our own broker for.

        That keeps a ledger of what was synced; and it can be told to reach each peer by another address, as per-link
        proxies want it. A broker on its own can stand behind proxies if it advertises what it is told to.
        """
        cannot = set(self.definition.without)
        if page_cache == "page-cache":
            cannot.add("page-cache-loss")
        alone = self.spec.brokers + self.spec.controllers == 1
        if network == "proxies" and not (alone and self._advertises):
            cannot |= {"network", "network-shaping"}
        return frozenset(cannot)

    @property
    def _advertises(self) -> bool:
        return any("advertised" in names_in(template) for template in self.definition.broker.templates)

    def listeners(self, role: NodeRole) -> Sequence[str]:
        """Names of the listeners that a node of this role has."""
        return self.definition.kinds[role].listeners

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the node's files, and the orders of its attendant, into its directory."""
        kind = self.definition.kinds[plan.role]
        listeners = {role: each.listeners for role, each in self.definition.kinds.items()}
        names = node_names(self.spec, plan, plans, listeners, addresses, self.values)
        self._names[plan.node_id] = names
        for name, text in kind.files.items():
            path = plan.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fill(text, names))
        (plan.directory / ORDERS_NAME).write_text(_orders(kind, plan, plans, addresses, names).dumps())

    def command(self, plan: NodePlan) -> Sequence[str]:
        """Give the command that becomes the node, and leaves an attendant beside it."""
        orders = (plan.directory / ORDERS_NAME).absolute()
        return (sys.executable, "-m", "harness.systems.attendant.launch", str(orders))

    def keeper_of(self, group: str) -> int | None:  # noqa: ARG002
        """Nobody tells; how a group is assigned to a partition is each broker's own affair."""
        return None

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:
        """As the definition says, with the broker's process id."""
        stop = self.definition.kinds[plan.role].stop
        return None if stop is None else _filled(stop, {**self._names[plan.node_id], "pid": pid})

    def log_files(self, plan: NodePlan) -> Sequence[Path]:
        """Files in the node's directory that match the definition's patterns, the latest changed last."""
        patterns = self.definition.kinds[plan.role].logs
        found = {path for pattern in patterns for path in plan.directory.glob(pattern) if path.is_file()}
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def is_ready(self, plan: NodePlan) -> bool:
        """Whether the node answers its attendant in the way that the definition asks for."""
        return state_of(plan) is not None

    def replicas(self, plan: NodePlan) -> Sequence[ReplicaState]:
        """Tell of the partitions that this node leads; of the others the protocol tells clients nothing."""
        state = state_of(plan)
        if state is None or plan.role == "controller":
            return ()
        told = (each for each in state["partitions"] if each["role"] == "leader" and each["log_end"] is not None)
        return [replica_of(partition, state["broker_epoch"]) for partition in told]

    def view(self, plans: Sequence[NodePlan]) -> Sequence[PartitionView]:
        """Tell the newest of what the brokers know of each partition."""
        return newest_views(states_of_brokers(plans))

    def active_controller(self, plans: Sequence[NodePlan]) -> int | None:
        """Name the leader of the quorum, by its own account."""
        return next((voter.leader for voter in self.voters(plans)), None)

    def voters(self, plans: Sequence[NodePlan]) -> Sequence[VoterView]:
        """Tell of the controllers that answer what the newest leader of the quorum says of them."""
        states = states_of_controllers(plans)
        quorum = max((state["quorum"] for state in states if state["quorum"]), key=lambda q: q["epoch"], default=None)
        if quorum is None:
            return ()
        answering = {state["node"] for state in states}
        return [
            VoterView(
                controller=voter,
                role="leader" if voter == quorum["leader"] else "follower",
                leader=quorum["leader"],
                epoch=quorum["epoch"],
                log_end=log_end,
                high_watermark=quorum["high_watermark"],
            )
            for voter, log_end in sorted((int(voter), log_end) for voter, log_end in quorum["voters"].items())
            if voter in answering
        ]

    def log(self, plan: NodePlan, topic: str, partition: int) -> Iterator[LogRecord]:
        """Read what clients can read, from the leader."""
        return log_of(plan, topic, partition)

    def lose_page_cache(self, plan: NodePlan) -> Mapping[str, tuple[int, int]]:
        """Nobody may ask for this: it is among what faults cannot do."""
        raise NotImplementedError(f"{self.name} keeps no ledger of what node {plan.node_id} has synced")

    def disk_changed(self, plan: NodePlan) -> None:
        """Nothing was noted down of the files."""


def make(spec: Spec, definition: Definition) -> ForeignBroker:
    """Make the system of a run, and see that all its programs and templates are good. Raises `SpecError`."""
    _check(spec, definition)
    values = {name: _printed(definition, f"values.{name}", command) for name, command in definition.values.items()}
    version = None
    if definition.version is not None:
        version = _printed(definition, "version", _try_filled(definition, definition.version, {"values": values}))
    system = ForeignBroker(spec, definition, values, version)
    _try_templates(system)
    return system


def _check(spec: Spec, definition: Definition) -> None:
    where = definition.path
    if definition.broker.start is None:
        raise SpecError(
            f"{where}: expected a start command for the environment {spec.environment}, which runs programs, found "
            f"only the image {definition.image}"
        )
    if spec.brokers > definition.brokers_max:
        raise SpecError(
            f"brokers: expected at most {definition.brokers_max} for {definition.name}, found {spec.brokers}"
        )
    if (spec.controllers > 0) != (definition.controller is not None):
        expected = "at least 1" if definition.controller is not None else "0, for it has none"
        raise SpecError(f"controllers: expected {expected} for {definition.name}, found {spec.controllers}")
    if spec.flaws or spec.generation != Spec(seed=0).generation:
        raise SpecError(f"flaw, generation: expected none with --system {where}: they are of Harrow's own broker")


def _printed(definition: Definition, key: str, command: Command) -> str:
    """What a command of the definition prints; one line of it counts, the last. Raises `SpecError`."""
    words = _try_filled(definition, command, {})
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_VALUE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        found = error.strerror if isinstance(error, OSError) else f"no end within {_VALUE_TIMEOUT_S:g} s"
        raise _missing(definition, f"{key}: expected to run {words[0]!r}", str(found)) from error
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        said = done.stderr.strip().splitlines()
        found = said[-1] if said else f"status {done.returncode} and nothing printed"
        raise _missing(definition, f"{key}: expected {words[0]!r} to print a value", found)
    return lines[-1].strip()


def _missing(definition: Definition, expected: str, found: str) -> SpecError:
    advice = f"; {definition.install}" if definition.install else ""
    return SpecError(f"{definition.path}: {expected}, found: {found}{advice}")


def _try_filled(definition: Definition, command: Command, names: Mapping[str, object]) -> Command:
    try:
        return _filled(command, {**outer_names(), **names})
    except TemplateError as error:
        raise _missing(definition, "expected a template that can be filled in", str(error)) from error


def _filled(command: Command, names: Mapping[str, object]) -> Command:
    return tuple(fill(word, names) for word in command)


def _orders(
    kind: NodeKind, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses, names: Mapping[str, object]
) -> Orders:
    assert kind.start is not None
    brokers = [other.node_id for other in plans if other.role == "broker"]
    nodes = {}
    for broker in brokers:
        for host, port in (addresses.bind(broker, CLIENT), addresses.reach(CLIENTS, broker, CLIENT)):
            nodes[f"{host}:{port}"] = broker
    ready = kind.ready
    return Orders(
        node_id=plan.node_id,
        role="broker" if is_broker(plan) else "controller",
        prepare=[_filled(command, names) for command in kind.prepare],
        command=_filled(kind.start, names),
        environment={name: fill(text, names) for name, text in kind.environment.items()},
        directory=str(plan.directory.absolute()),
        data=str(plan.data.absolute()),
        socket=str(plan.socket.absolute()),
        address=addresses.bind(plan.node_id, kind.listeners[0]),
        nodes=nodes,
        ready=ready if isinstance(ready, str) else "command",
        ready_command=() if isinstance(ready, str) else _filled(ready, names),
    )


class _Anywhere:
    """Addresses of a cluster that is only thought of."""

    def bind(self, node_id: int, listener: str) -> tuple[str, int]:  # noqa: ARG002
        return f"node-{node_id}", 9092

    def reach(self, source: int, node_id: int, listener: str) -> tuple[str, int]:  # noqa: ARG002
        return self.bind(node_id, listener)


def _try_templates(system: ForeignBroker) -> None:
    """Fill in everything for a cluster of this shape that is only thought of. Raises `SpecError`."""
    definition, spec = system.definition, system.spec
    roles: dict[int, NodeRole] = dict.fromkeys(range(1, spec.brokers + 1), "broker")
    roles |= dict.fromkeys(range(100, 100 + spec.controllers), "controller")
    nowhere = Path("/nowhere")
    plans = [
        NodePlan(node, role, nowhere, nowhere / "data", nowhere / "socket", "files") for node, role in roles.items()
    ]
    listeners = {role: each.listeners for role, each in definition.kinds.items()}
    for plan in plans:
        kind = definition.kinds[plan.role]
        names = node_names(spec, plan, plans, listeners, _Anywhere(), system.values)
        try:
            orders = _orders(kind, plan, plans, _Anywhere(), names)
            for text in kind.files.values():
                fill(text, names)
            _filled(kind.stop or (), {**names, "pid": 1})
        except TemplateError as error:
            raise _missing(definition, "expected a template that can be filled in", str(error)) from error
        for program in {orders.command[0], *(command[0] for command in orders.prepare)}:
            if shutil.which(program) is None:
                raise _missing(definition, f"expected the program {program!r}", "none of that name")
