"""A system under test from a definition file: any third-party broker that speaks Kafka's protocol.

A sidecar of each broker (`harness.systems.sidecar`) queries it over the protocol, and serves the results at the
socket, in the format, of the admin endpoint of Harrow's own broker. A broker may run from its own image, which needs
nothing of ours: the node's container runs the broker alone, and its sidecar is a process of this machine, in the
node's network.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from broker.core.broker_node.groups.records import partition_of
from harness.environments.base import Addresses, LogRecord, NodePlan, ReplicaState, Traits
from harness.environments.machine.helpers.programs import module_command
from harness.spec.spec import Spec
from harness.systems.admin_endpoint import (
    NoAnswer,
    PageAt,
    State,
    get_json,
    newest_views,
    page_of,
    read_log,
    replica_of,
    state_of,
)
from harness.systems.definition import Command, Definition, NodeKind
from harness.systems.runtime import NodeRuntime
from harness.systems.sidecar.config import SidecarConfig
from harness.systems.sidecar.launch import FAILED
from harness.systems.templating import CLIENT, CONTROLLER, fill, filled, names_in, node_names
from nemesis.capabilities.cluster import (
    CLIENTS,
    Capability,
    NodeRole,
    PartitionView,
    VoterView,
    is_broker,
    is_controller,
)

CONFIG_NAME = "attendant.json"

LOG_PATIENCE_S = 10.0
"""A log that cannot be read is read again for so long: on a busy machine an answer may come late."""


FEATURES_S = 5.0
"""A node that was asked for its features may be busy with its first clients."""


@dataclass(frozen=True)
class ForeignBroker:
    """Implements `harness.environments.base.System`."""

    spec: Spec
    definition: Definition
    runtimes: Mapping[int, NodeRuntime]  # by node id
    _names: dict[int, Mapping[str, object]] = field(default_factory=dict)  # node id → names for its templates

    @property
    def name(self) -> str:
        """The name in the definition."""
        return self.definition.name

    @property
    def traits(self) -> Traits:
        """Traits from the definition and from the limits of the protocol."""
        versions = {self.name: self._versions} if self._versions else {}
        features = {name: str(level) for name, level in self.definition.features.items()}
        return Traits(
            reports_followers=False,
            volatile=self.definition.keeps == "memory",
            orderly_exits=self.definition.stops_with,
            start_s=self.definition.start_within,
            stop_s=self.definition.stop_within,
            session_ms_min=self.definition.session_ms_min,
            not_back_after=self.definition.not_back_after,
            versions=versions | features,
            upgrades_first=self.definition.upgrades_first,
        )

    @property
    def _versions(self) -> str:
        """The different versions that the definition's command has printed, on one line."""
        return ", ".join(dict.fromkeys(each.version for each in self.runtimes.values() if each.version is not None))

    @property
    def version_name(self) -> str:
        """The definition's name, and the version that its command has printed."""
        return f"{self.name} ({self._versions})" if self._versions else self.name

    def version(self, plan: NodePlan) -> str | None:
        """The version with which the node's sidecar, and so its process, was started."""
        state = self._state(plan)
        return None if state is None else state.get("version")

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:
        """The capabilities that the definition excludes, and those that only our own broker supports.

        Our own broker keeps a ledger of synced data, and can reach each peer at a separate address, as per-link
        proxies need. A single broker can run behind proxies if its advertised address can be configured.
        """
        cannot = set(self.definition.without)
        if page_cache == "page-cache":
            cannot.add("page-cache-loss")
        alone = self.spec.nodes == 1
        if network == "proxies" and not (alone and self._advertises):
            cannot |= {"network", "network-shaping"}
        return frozenset(cannot)

    @property
    def _advertises(self) -> bool:
        return any("advertised" in names_in(template) for template in self.definition.kinds[self._first_role].templates)

    @property
    def _first_role(self) -> NodeRole:
        return "combined" if self.spec.combined else "broker"

    def listeners(self, role: NodeRole) -> Sequence[str]:
        """Names of the listeners that a node of this role has."""
        return self.definition.kinds[role].listeners

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the node's files, and the config of its sidecar, into its directory."""
        kind = self.definition.kinds[plan.role]
        listeners = {role: each.listeners for role, each in self.definition.kinds.items()}
        names = node_names(self.spec, plan, plans, listeners, addresses, self.runtimes[plan.node_id].names)
        self._names[plan.node_id] = names
        for name, text in kind.files.items():
            path = plan.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fill(text, names))
        runtime = self.runtimes[plan.node_id]
        config = sidecar_config(kind, runtime, plan, plans, addresses, names)
        groups = self.traits.groups if self.spec.workload == "groups" else ()
        kept = {partition for group in groups if (partition := self.offsets_partition_of(group)) is not None}
        config = replace(config, version=self.version_name, group_partitions=sorted(kept))
        (plan.directory / CONFIG_NAME).write_text(config.dumps())

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The command that starts the sidecar and becomes the node."""
        config = (plan.directory / CONFIG_NAME).absolute()
        return module_command("harness.systems.sidecar.launch", str(config))

    def offsets_partition_of(self, group: str) -> int | None:
        """By the hash of its name, as in Kafka, if the definition says how many partitions there are."""
        partitions = self.definition.offsets_partitions
        return None if partitions is None else partition_of(group, partitions)

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:
        """The definition's stop command, with the broker's process id."""
        stop = self.definition.kinds[plan.role].stop
        return None if stop is None else filled(stop, {**self._names[plan.node_id], "pid": pid})

    def log_patterns(self, role: NodeRole) -> Sequence[str]:
        """The definition's patterns of log files."""
        return self.definition.kinds[role].logs

    def is_ready(self, plan: NodePlan) -> bool:
        """Whether the node answers its sidecar in the way that the definition requires."""
        return self._state(plan) is not None

    def _state(self, plan: NodePlan) -> State | None:
        """What the node's sidecar reports; None if it does not answer."""
        return state_of(plan)

    def unfit(self, plans: Sequence[NodePlan]) -> str | None:
        """The first feature that a node has not finalized at the level of the definition (KIP-584).

        A program that formats storage may ignore a feature that it does not know, and the cluster then runs without.
        """
        wanted = self.definition.features
        for plan in plans if wanted else ():
            expected = f"expected node {plan.node_id} to have the finalized features {_listed(wanted)}"
            try:
                levels = self._finalized(plan)
            except NoAnswer as silence:
                return f"{expected}, found no answer: {silence}"
            if levels is None:
                return f"{expected}, found that it tells of none: its ApiVersions has no features (KIP-584)"
            if any(levels.get(name, 0) != level for name, level in wanted.items()):
                return (
                    f"{expected}, found {_listed(levels) or 'none'}; the broker or the program that formats its "
                    f"storage does not know what {self.definition.path} asks for: use another release or definition"
                )
        return None

    def _finalized(self, plan: NodePlan) -> Mapping[str, int] | None:
        """The finalized features of a node. Raises `NoAnswer`."""
        levels: Mapping[str, int] | None = get_json(plan.socket, "/features", FEATURES_S * plan.pace)["levels"]
        return levels

    def replicas(self, plan: NodePlan) -> Sequence[ReplicaState]:
        """All replicas of this node, with the positions that it tells clients; leaders before they serve have none."""
        state = self._state(plan)
        if state is None or plan.role == "controller":
            return ()
        return [
            replica_of(partition, state["broker_epoch"])
            for partition in state["partitions"]
            if partition["role"] != "none"
        ]

    def view(self, plans: Sequence[NodePlan]) -> Sequence[PartitionView]:
        """The newest view of each partition among the brokers."""
        return newest_views(state for plan in plans if is_broker(plan) and (state := self._state(plan)) is not None)

    def active_controller(self, plans: Sequence[NodePlan]) -> int | None:
        """The leader of the quorum, as it reports itself."""
        return next((voter.leader for voter in self.voters(plans)), None)

    def voters(self, plans: Sequence[NodePlan]) -> Sequence[VoterView]:
        """The answering controllers, as the newest leader of the quorum reports them."""
        asked = [self._state(plan) for plan in plans if is_controller(plan)]
        states = [state for state in asked if state is not None]
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
        """Read the records below the replica's high watermark, as clients do: all, or none if it does not answer.

        A part of a log would look like a replica that lacks the rest.
        """
        deadline = time.monotonic() + LOG_PATIENCE_S * plan.pace
        while True:
            try:
                return iter(list(read_log(self._page_of(plan, topic, partition))))
            except NoAnswer:
                if time.monotonic() >= deadline:
                    return iter(())

    def _page_of(self, plan: NodePlan, topic: str, partition: int) -> PageAt:
        return page_of(plan, topic, partition)

    def lose_page_cache(self, plan: NodePlan) -> Mapping[str, tuple[int, int]]:
        """Never called: `cannot` excludes it."""
        raise NotImplementedError(f"{self.name} keeps no ledger of what node {plan.node_id} has synced")

    def disk_changed(self, plan: NodePlan) -> None:
        """Nothing to do: it keeps no record of the files."""


@dataclass(frozen=True)
class BrokerFromImage(ForeignBroker):
    """Also implements `harness.environments.docker.environment.Contents`."""

    image: str = ""

    @property
    def images(self) -> Sequence[str]:
        """The image of all nodes."""
        return (self.image,)

    def image_of(self, plan: NodePlan) -> str:  # noqa: ARG002
        """The same for all nodes."""
        return self.image

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:
        """Also excludes clocks: a library compiled on this machine may not load with the image's C library."""
        return super().cannot(network, page_cache) | {"clock"}

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the node's files; its container sees them under the same path."""
        super().configure(plan, plans, addresses)
        plan.data.mkdir(parents=True, exist_ok=True)

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The broker's own command, run by the image's shell if there are commands to prepare the node."""
        config = _config(plan)
        if not config.once and not config.prepare:
            return tuple(config.command)
        prepared = [*_prepared_once(config), *(_or_give_up(command) for command in config.prepare)]
        return ("sh", "-c", "\n".join([*prepared, f"exec {shlex.join(config.command)}"]))

    def environment(self, plan: NodePlan) -> Mapping[str, str]:
        """Environment variables of the container, besides those of its image."""
        return _config(plan).environment

    def sidecar(self, plan: NodePlan, pid: int) -> Command:
        """The command of the sidecar of the node's process, which has this pid on this machine."""
        config = (plan.directory / CONFIG_NAME).absolute()
        return module_command("harness.systems.sidecar.serve", str(config), str(pid))


def sidecar_config(
    kind: NodeKind,
    runtime: NodeRuntime,
    plan: NodePlan,
    plans: Sequence[NodePlan],
    addresses: Addresses,
    names: Mapping[str, object],
) -> SidecarConfig:
    """The config of a node's sidecar, and of the launcher of the broker. Raises `TemplateError`."""
    brokers = [other.node_id for other in plans if is_broker(other)]
    nodes = {}
    for broker in brokers:
        for host, port in (addresses.bind(broker, CLIENT), addresses.reach(CLIENTS, broker, CLIENT)):
            nodes[f"{host}:{port}"] = broker
    ready = kind.ready
    return SidecarConfig(
        node_id=plan.node_id,
        role="broker" if is_broker(plan) else "controller",
        once=[filled(command, names) for command in kind.once],
        prepare=[filled(command, names) for command in kind.prepare],
        command=runtime.command if kind.start is None else filled(kind.start, names),
        environment={name: fill(text, names) for name, text in kind.environment.items()},
        directory=str(plan.own_directory),
        data=str(plan.data.absolute()),
        socket=str(plan.socket.absolute()),
        address=addresses.bind(plan.node_id, kind.listeners[0]),
        quorum_address=addresses.bind(plan.node_id, CONTROLLER) if plan.role == "combined" else None,
        nodes=nodes,
        ready=ready if isinstance(ready, str) else "command",
        ready_command=() if isinstance(ready, str) else filled(ready, names),
    )


def _listed(features: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={level}" for name, level in sorted(features.items()))


def _config(plan: NodePlan) -> SidecarConfig:
    return SidecarConfig.load(plan.directory / CONFIG_NAME)


def _prepared_once(config: SidecarConfig) -> Sequence[str]:
    """The lines of a shell that prepare a node once; what they have written is then synced, as by the launcher."""
    if not config.once:
        return ()
    data, marker = shlex.quote(config.data), shlex.quote(str(config.prepared_once))
    return (
        f"if [ ! -e {marker} ]; then",
        *(_or_give_up(command) for command in config.once),
        f": > {marker}",
        f"find {data} -exec sync {{}} + || sync",
        "fi",
    )


def _or_give_up(command: Sequence[str]) -> str:
    complaint = shlex.quote(f"expected `{' '.join(command)}` to prepare the node, found that it ended with status")
    return f"{shlex.join(command)} || {{ echo {complaint} $? >&2; exit {FAILED}; }}"
