"""Harrow's own broker as the system under test.

Nodes are `python -m broker.shell FILE.properties`. Their state is read through their admin endpoint, a Unix socket,
which network faults do not affect. A paused or dead node does not answer, and is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.core.broker_node.groups.records import partition_of
from broker.core.rules.flaws import FLAWS
from harness.environments.base import Addresses, LogRecord, NodePlan, ReplicaState, Traits
from harness.environments.machine.helpers.programs import module_command
from harness.spec.spec import Spec
from harness.systems.admin_endpoint import (
    State,
    log_of,
    newest_views,
    replica_of,
    state_of,
    states_of_brokers,
    states_of_controllers,
    view_of,
)
from nemesis.capabilities.cluster import (
    CLIENTS,
    Capability,
    NodeRole,
    PartitionView,
    VoterView,
    active_among,
    is_broker,
    is_controller,
)

SETTINGS_NAME = "node.properties"
SHORT_RUN: Mapping[str, int] = {
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 3_000,
    "replica.fetch.backoff.ms": 250,
    "controlled.shutdown.timeout.ms": 10_000,
    "replica.high.watermark.checkpoint.interval.ms": 1_000,
    "group.initial.rebalance.delay.ms": 500,
    "group.min.session.timeout.ms": 2_000,
}
"""Timeouts a third of Kafka's or less, so that faults of a few seconds have consequences."""


_LISTENERS: Mapping[NodeRole, Sequence[str]] = {
    "broker": ("CLIENT", "BROKER"),
    "controller": ("CONTROLLER",),
    "combined": ("CLIENT", "BROKER", "CONTROLLER"),
}

REGISTRATION_MS = 86_400_000
"""A fault may keep a broker from its controllers for longer than Kafka's minute; that must not end it."""

OFFSETS_PARTITIONS = 4
"""Partitions of the topic that stores consumer groups."""


@dataclass(frozen=True)
class HarrowBroker:
    """Implements `harness.environments.base.System`."""

    spec: Spec
    name: str = "harrow"

    @property
    def traits(self) -> Traits:
        """The default traits, with what is planted."""
        return Traits(flaw_summaries=self.planted)

    @property
    def planted(self) -> Mapping[str, str]:
        """Planted flaw → what is wrong with it."""
        return {name: FLAWS[name].summary for name in self.spec.flaws if name in FLAWS}

    @property
    def version_name(self) -> str:
        """The protocol version."""
        return self.spec.generation

    def version(self, plan: NodePlan) -> str | None:
        """The protocol version that the node reports."""
        state = state_of(plan)
        return None if state is None else state.get("generation")

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:  # noqa: ARG002
        """Nothing: it keeps a ledger of synced data, and can reach each peer at a separate address."""
        return frozenset()

    def listeners(self, role: NodeRole) -> Sequence[str]:
        """Names of the listeners that a node of this role has."""
        return _LISTENERS[role]

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the node's settings into its directory."""
        lines = [f"{key}={_text(value)}" for key, value in self._settings(plan, plans, addresses).items()]
        (plan.directory / SETTINGS_NAME).write_text("\n".join(lines) + "\n")

    def _settings(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> dict[str, object]:
        def bound(listener: str) -> str:
            return f"{listener}://{_address(addresses.bind(plan.node_id, listener))}"

        def reached(other: NodePlan, listener: str) -> str:
            return f"{other.node_id}@{_address(addresses.reach(plan.node_id, other.node_id, listener))}"

        voters = [reached(other, "CONTROLLER") for other in plans if is_controller(other) and other != plan]
        brokers = [reached(other, "BROKER") for other in plans if is_broker(other) and other != plan]
        own = []
        if is_controller(plan):
            own = [f"{plan.node_id}@{_address(addresses.bind(plan.node_id, 'CONTROLLER'))}"]
        return {
            "process.roles": "broker,controller" if plan.role == "combined" else plan.role,
            "node.id": plan.node_id,
            "controller.quorum.voters": ",".join([*own, *voters]),
            "listeners": ",".join(bound(listener) for listener in self.listeners(plan.role)),
            "advertised.listeners": ",".join(self._advertised(plan, addresses)),
            "harrow.peer.addresses": ",".join(brokers),
            "log.dirs": plan.data.absolute(),
            "num.partitions": self.spec.partitions,
            "default.replication.factor": self.spec.replication_factor,
            "min.insync.replicas": self.spec.min_insync_replicas,
            "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
            "offsets.topic.replication.factor": self.spec.replication_factor,
            "auto.create.topics.enable": False,
            "unclean.leader.election.enable": self.spec.unclean_election,
            "log.retention.ms": -1,  # a wall clock that is a year ahead must not delete records that the checkers read
            "offsets.retention.minutes": 0x7FFFFFFF,  # nor committed offsets
            "initial.broker.registration.timeout.ms": REGISTRATION_MS,
            **_flush(self.spec.flush),
            **{name: timeout_ms * self.spec.pace for name, timeout_ms in SHORT_RUN.items()},
            "harrow.generation": self.spec.generation,
            "harrow.flaws": ",".join(self.spec.flaws),
            "harrow.admin.socket": plan.socket.absolute(),
            "harrow.storage": plan.storage,
        }

    def _advertised(self, plan: NodePlan, addresses: Addresses) -> list[str]:
        """Advertise the addresses at which clients reach the node; brokers have each other's in their settings."""
        where = {
            "CLIENT": lambda: addresses.reach(CLIENTS, plan.node_id, "CLIENT"),
            "BROKER": lambda: addresses.bind(plan.node_id, "BROKER"),
            "CONTROLLER": lambda: addresses.bind(plan.node_id, "CONTROLLER"),
        }
        return [f"{listener}://{_address(where[listener]())}" for listener in self.listeners(plan.role)]

    def offsets_partition_of(self, group: str) -> int | None:
        """The partition of `__consumer_offsets` that stores a group."""
        return partition_of(group, OFFSETS_PARTITIONS)

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The command that runs the node in the foreground."""
        return module_command("broker.shell", str((plan.directory / SETTINGS_NAME).absolute()))

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:  # noqa: ARG002
        """None: SIGTERM does a controlled shutdown."""
        return None

    def log_patterns(self, role: NodeRole) -> Sequence[str]:  # noqa: ARG002
        """None: it logs to standard error."""
        return ()

    def is_ready(self, plan: NodePlan) -> bool:
        """Whether the node reports that it serves: a controller does once it knows the leader of the quorum."""
        state = state_of(plan)
        if state is None or state["lifecycle"] != "running":
            return False
        return plan.role == "broker" or state["controller"] >= 0

    def unfit(self, plans: Sequence[NodePlan]) -> str | None:  # noqa: ARG002
        """None: its nodes have the settings that `configure` has written, or do not start."""
        return None

    def replicas(self, plan: NodePlan) -> Sequence[ReplicaState]:
        """The states of this node's replicas; empty if it does not answer."""
        state = state_of(plan)
        if state is None or plan.role == "controller":
            return ()
        return [replica_of(partition, state["broker_epoch"]) for partition in state["partitions"]]

    def view(self, plans: Sequence[NodePlan]) -> Sequence[PartitionView]:
        """The active controller's view, or without one the newest view among all other nodes."""
        controllers = states_of_controllers(plans)
        active = active_among(map(_voter, controllers))
        for state in controllers:
            if active is not None and state["node"] == active.controller:
                return [view_of(partition) for partition in state["partitions"]]
        return newest_views([*states_of_brokers(plans), *controllers])

    def active_controller(self, plans: Sequence[NodePlan]) -> int | None:
        """The node that is the active controller."""
        active = active_among(self.voters(plans))
        return None if active is None else active.controller

    def voters(self, plans: Sequence[NodePlan]) -> Sequence[VoterView]:
        """The quorum as each answering controller reports it."""
        return [_voter(state) for state in states_of_controllers(plans)]

    def log(self, plan: NodePlan, topic: str, partition: int) -> Iterator[LogRecord]:
        """Read a replica's whole log, page by page, until its end or until the node stops answering."""
        return log_of(plan, topic, partition)

    def lose_page_cache(self, plan: NodePlan) -> Mapping[str, tuple[int, int]]:
        """Drop the data that the dead node's ledger does not record as synced."""
        from broker.shell.files.ledger_files import lose_unsynced

        return lose_unsynced(plan.data)

    def disk_changed(self, plan: NodePlan) -> None:
        """Delete the ledger: the node then treats all data that it finds as durable, and starts a new one."""
        from broker.shell.files.ledger_files import ledger_of

        ledger_of(plan.data).unlink(missing_ok=True)


def run_node(settings: Path) -> int:
    """Run one node in this process, in the foreground; returns its exit status."""
    from broker.shell.main import run

    return run(str(settings))


def _voter(state: State) -> VoterView:
    return VoterView(
        controller=state["node"],
        role=state["quorum_role"],
        leader=state["controller"],
        epoch=state["epoch"],
        log_end=state["log_end"],
        high_watermark=state["high_watermark"],
    )


def _address(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flush(policy: str) -> dict[str, object]:
    """Translate "never", "every-write", "N" or "Nms" to Kafka's settings."""
    if policy == "never":
        return {}
    if policy == "every-write":
        return {"log.flush.interval.messages": 1}
    if policy.endswith("ms"):
        return {"log.flush.interval.ms": int(policy.removesuffix("ms"))}
    return {"log.flush.interval.messages": int(policy)}
