"""A system under test that is known from a definition file alone: any broker that speaks Kafka's protocol.

Beside each node's broker an attendant (`harness.systems.sidecar`) asks it over the protocol and tells what it
learned at the socket at which Harrow's own broker tells what it believes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.environments.base import Addresses, LogRecord, NodePlan, ReplicaState, Traits
from harness.environments.machine.helpers.own_python import module_command
from harness.spec.spec import Spec
from harness.systems.admin_endpoint import (
    log_of,
    newest_views,
    replica_of,
    state_of,
    states_of_brokers,
    states_of_controllers,
)
from harness.systems.definition import Definition, NodeKind
from harness.systems.runtime import Place
from harness.systems.sidecar.config import SidecarConfig
from harness.systems.templating import CLIENT, fill, filled, names_in, node_names
from nemesis.capabilities.cluster import CLIENTS, Capability, NodeRole, PartitionView, VoterView, is_broker

ORDERS_NAME = "attendant.json"


@dataclass(frozen=True)
class ForeignBroker:
    """Implements `harness.environments.base.System`."""

    spec: Spec
    definition: Definition
    places: Mapping[int, Place]  # node id → where its programs are
    _names: dict[int, Mapping[str, object]] = field(default_factory=dict)  # node id → what its templates may name

    @property
    def name(self) -> str:
        """As the definition calls it."""
        return self.definition.name

    @property
    def traits(self) -> Traits:
        """What the definition, and the protocol, make of it."""
        found = dict.fromkeys(place.version for place in self.places.values() if place.version is not None)
        versions = {self.name: ", ".join(found)} if found else {}
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
        names = node_names(self.spec, plan, plans, listeners, addresses, self.places[plan.node_id].names)
        self._names[plan.node_id] = names
        for name, text in kind.files.items():
            path = plan.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fill(text, names))
        place = self.places[plan.node_id]
        (plan.directory / ORDERS_NAME).write_text(orders_of(kind, place, plan, plans, addresses, names).dumps())

    def command(self, plan: NodePlan) -> Sequence[str]:
        """Give the command that becomes the node, and leaves an attendant beside it."""
        orders = (plan.directory / ORDERS_NAME).absolute()
        return module_command("harness.systems.sidecar.launch", str(orders))

    def keeper_of(self, group: str) -> int | None:  # noqa: ARG002
        """Nobody tells; how a group is assigned to a partition is each broker's own affair."""
        return None

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:
        """As the definition says, with the broker's process id."""
        stop = self.definition.kinds[plan.role].stop
        return None if stop is None else filled(stop, {**self._names[plan.node_id], "pid": pid})

    def log_patterns(self, role: NodeRole) -> Sequence[str]:
        """As the definition says."""
        return self.definition.kinds[role].logs

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


def orders_of(
    kind: NodeKind,
    place: Place,
    plan: NodePlan,
    plans: Sequence[NodePlan],
    addresses: Addresses,
    names: Mapping[str, object],
) -> SidecarConfig:
    """What a node's attendant is told, or whoever starts the broker for it. Raises `TemplateError`."""
    brokers = [other.node_id for other in plans if other.role == "broker"]
    nodes = {}
    for broker in brokers:
        for host, port in (addresses.bind(broker, CLIENT), addresses.reach(CLIENTS, broker, CLIENT)):
            nodes[f"{host}:{port}"] = broker
    ready = kind.ready
    return SidecarConfig(
        node_id=plan.node_id,
        role="broker" if is_broker(plan) else "controller",
        prepare=[filled(command, names) for command in kind.prepare],
        command=place.command if kind.start is None else filled(kind.start, names),
        environment={name: fill(text, names) for name, text in kind.environment.items()},
        directory=str(plan.own_directory),
        data=str(plan.data.absolute()),
        socket=str(plan.socket.absolute()),
        address=addresses.bind(plan.node_id, kind.listeners[0]),
        nodes=nodes,
        ready=ready if isinstance(ready, str) else "command",
        ready_command=() if isinstance(ready, str) else filled(ready, names),
    )
