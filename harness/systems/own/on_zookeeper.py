"""Harrow's own broker in a design on ZooKeeper as the system under test: brokers, and the members of an ensemble.

The members are in the place of the controllers, and faults reach them as those. Which leader a partition has is what
the tree of znodes says, whatever the brokers believe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from common.wording import FIRST_SERVER
from harness.environments.base import Addresses, LogRecord, NodePlan, ReplicaState, Traits
from harness.environments.machine.helpers.programs import module_command
from harness.spec.designs import LEADER_RACES, WITH_EPOCHS
from harness.systems.admin_endpoint import (
    NoAnswer,
    get_json,
    log_of,
    replica_of,
    state_of,
    view_of,
)
from harness.systems.own import ensemble
from harness.systems.own.harrow_broker import HarrowBroker
from nemesis.capabilities.cluster import (
    Capability,
    NodeError,
    NodeRole,
    PartitionView,
    VoterView,
    active_among,
    is_broker,
    is_controller,
)

_OF_A_QUORUM = (
    "controller.quorum.voters",
    "unclean.leader.election.enable",
    "initial.broker.registration.timeout.ms",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
)
"""Settings of a broker with a quorum of controllers; the designs have nothing that they could mean."""

_OF_A_CONTROLLER = ("min.insync.replicas",)
"""Settings that the designs without a controller do not have either."""

_ENDED_BY_SIGTERM = (143, -15)
"""What a JVM exits with; of a container this is the status of one that the signal has killed."""

_TREE_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class HarrowOnZooKeeper(HarrowBroker):
    """Implements `harness.environments.base.System`."""

    @property
    def traits(self) -> Traits:
        """An ensemble's members end in their own way, and are not numbered as controllers are."""
        return Traits(
            controllers_from=FIRST_SERVER,
            orderly_exits=frozenset({0, *_ENDED_BY_SIGTERM}),
            versions={"ensemble": self._version_of_ensemble},
            flaw_summaries=self.planted,
        )

    @cached_property
    def _version_of_ensemble(self) -> str:
        return ensemble.version(self.spec)

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:  # noqa: ARG002
        """The designs elect by themselves and have no settings of topics, those with a controller move nothing.

        Members tell each other addresses behind the proxies.
        """
        proxied = frozenset[Capability]({"network"} if network == "proxies" else ())
        unmoved = frozenset[Capability](() if self.spec.generation in LEADER_RACES else {"reassignment"})
        return frozenset[Capability]({"administration"}) | proxied | unmoved

    def listeners(self, role: NodeRole) -> Sequence[str]:
        """Names of the listeners that a node of this role has."""
        return ensemble.LISTENERS if role == "controller" else super().listeners(role)

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the node's settings into its directory."""
        if is_broker(plan):
            super().configure(plan, plans, addresses)
        else:
            ensemble.configure(plan, [each for each in plans if is_controller(each)], addresses)

    def _settings(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> dict[str, object]:
        settings = super()._settings(plan, [each for each in plans if is_broker(each)], addresses)
        members = [each.node_id for each in plans if is_controller(each)]
        reached = (addresses.reach(plan.node_id, member, ensemble.CLIENT_PORT) for member in members)
        servers = ",".join(f"{host}:{port}" for host, port in reached)
        unknown = {*_OF_A_QUORUM, *(_OF_A_CONTROLLER if self.spec.generation in LEADER_RACES else ())}
        kept = {name: value for name, value in settings.items() if name not in unknown}
        return {**kept, "zookeeper.connect": servers}

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The command that runs the node in the foreground."""
        if is_broker(plan):
            return super().command(plan)
        return module_command("harness.systems.own.member", str((plan.directory / ensemble.MEMBER_NAME).absolute()))

    def offsets_partition_of(self, group: str) -> int | None:  # noqa: ARG002
        """None: the designs have no groups."""
        return None

    def is_ready(self, plan: NodePlan) -> bool:
        """Whether a broker is registered, and a member serves: it has a leader, or is one."""
        state = state_of(plan)
        return state is not None and state["lifecycle"] == "running"

    def replicas(self, plan: NodePlan) -> Sequence[ReplicaState]:
        """What a broker believes of its replicas; without a controller only a leader of `zk-v2` knows an epoch."""
        state = state_of(plan) if is_broker(plan) else None
        return () if state is None else [_without_epoch(replica_of(each, -1)) for each in state["partitions"]]

    def view(self, plans: Sequence[NodePlan]) -> Sequence[PartitionView]:
        """The partitions by the tree of the first member that can read it, the leader of the ensemble first."""
        leader = self.active_controller(plans)
        members = sorted(filter(is_controller, plans), key=lambda plan: plan.node_id != leader)
        for plan in members:
            try:
                answer = get_json(plan.socket, "/partitions", _TREE_TIMEOUT_S)
            except NoAnswer:
                continue
            return [view_of(partition) for partition in answer["partitions"]]
        return ()

    def voters(self, plans: Sequence[NodePlan]) -> Sequence[VoterView]:
        """The members that serve. They do not say whom they follow: the leader of their epoch, if that is asked too."""
        states = {plan.node_id: state for plan in plans if is_controller(plan) and (state := state_of(plan))}
        told = [
            VoterView(node, state["quorum_role"], -1, state["epoch"], state["log_end"], state["log_end"])
            for node, state in states.items()
        ]
        active = active_among(told)
        if active is None:
            return told
        return [replace(one, leader=active.controller) if one.epoch == active.epoch else one for one in told]

    def log(self, plan: NodePlan, topic: str, partition: int) -> Iterator[LogRecord]:
        """Read a replica's whole log. Before `C2` batches have no leader epoch: the number in them means nothing."""
        records = log_of(plan, topic, partition)
        if self.spec.generation in WITH_EPOCHS:
            return iter(records)
        return (replace(record, leader_epoch=None) for record in records)

    def lose_page_cache(self, plan: NodePlan) -> Mapping[str, tuple[int, int]]:
        """Drop what a broker's ledger does not record as synced. Raises `NodeError` for a member, which has none."""
        if is_controller(plan):
            raise NodeError(
                f"expected to drop the page cache of node {plan.node_id}, found a member of the ensemble, which keeps "
                "no ledger; use --page-cache ext4 or fuse"
            )
        return super().lose_page_cache(plan)

    def disk_changed(self, plan: NodePlan) -> None:
        """Delete a broker's ledger; a member has none."""
        if is_broker(plan):
            super().disk_changed(plan)


def _without_epoch(replica: ReplicaState) -> ReplicaState:
    return replace(replica, leader_epoch=None) if replica.leader_epoch == -1 else replica
