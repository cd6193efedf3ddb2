"""Executes the steps of a directed schedule on a simulated cluster: one method for each kind of step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker.core.configuration.settings import Settings
from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AnyRequest,
    AnyResponse,
    ConfigOperation,
    ConfigResource,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    NewTopic,
    Reassignment,
)
from simulation.directed.client import CLIENT, DirectedClient
from simulation.directed.conditions import shortfall
from simulation.directed.files import DirectedSchedule, DirectedScheduleError, ScheduleStep
from simulation.directed.messages import Trap, Traps
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import Observer, SimulatedCluster
from simulation.engine.disk import Survival
from simulation.engine.event_queue import MS
from simulation.engine.node_views import active_controller, brokers, is_whole, partition_states
from simulation.invariants.properties import Violation
from simulation.scenario.configuration import Configuration
from simulation.scenario.scenario import settings_of
from simulation.workload.clients import TOPIC
from simulation.workload.recording import SimulatedHistory

_PATIENCE_MS = 10_000
_WHOLE_MS = 60_000
_ALL_ACKS = {"all": -1, "one": 1, "none": 0}
_KNOWN_TO_CLIENTS = ("seen", "acked")
_ELECTIONS = {"preferred": 0, "unclean": 1}


def configuration_of(schedule: DirectedSchedule, flaws: tuple[str, ...]) -> Configuration:
    """The simplest small, fast cluster, with the settings of the file."""
    defaults: dict[str, object] = {
        "generation": schedule.generation,
        "flaws": list(flaws),
        "controllers": 1,
        "partitions": 1,
        "session_timeout_ms": 1_000,
        "heartbeat_ms": 200,
        "lag_ms": 60_000,
        "faults": [],
    }
    return Configuration.from_json(defaults | dict(schedule.configuration))


def _with_own_settings(node: Settings, schedule: DirectedSchedule) -> Settings:
    """A node's settings with those of the file: of all nodes, then of its roles, then its own."""
    named = {
        "brokers": node.is_broker,
        "controllers": node.is_controller,
        str(node.node_id): True,
    }
    changes: dict[str, Any] = dict(schedule.settings)
    for name, applies in named.items():
        changes |= schedule.settings_of.get(name, {}) if applies else {}
    return replace(node, **changes)


class StepExecutor:
    """The cluster, its client and the traps that the steps of one schedule act on."""

    def __init__(
        self, schedule: DirectedSchedule, flaws: tuple[str, ...], observers: Sequence[Observer], *, keep_log: bool
    ) -> None:
        self.schedule = schedule
        self.configuration = configuration_of(schedule, flaws)
        self.choices = ChoiceSequence(given={})
        settings = [_with_own_settings(one, schedule) for one in settings_of(self.configuration)]
        self.cluster = SimulatedCluster(self.choices, settings, observers)
        if keep_log:
            self.cluster.log_entries = []
        self.history = SimulatedHistory()
        self.client = DirectedClient(self.history)
        self.traps = Traps()
        self.cluster.clients = {CLIENT: self.client}
        self.cluster.transport.intercept = self.traps.intercept
        self.brokers = tuple(range(1, self.configuration.brokers + 1))
        self.deleted: dict[int, int] = {}  # the offset below which everything was to be deleted, by partition
        self.ends: dict[int, int] = {}  # the offsets that the final reads have to reach, by partition
        self.clients_know = False  # whether an expectation failed that a client can check

    # --- before and after --------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Start all nodes, create the topic, wait until all replicas are in sync."""
        for node in self.cluster.machines:
            self.cluster.start(node)
        machines = self.cluster.machines.values()
        self._pass(20_000, lambda: all(one.node is not None and one.node.is_ready() for one in machines))
        topic = NewTopic(TOPIC, assignments=((0, self.schedule.replicas),))
        self._administer(CreateTopicsRequest((topic,), 5_000))
        self._pass(10_000, self._is_whole)
        if not self._is_whole():
            raise Violation("V-1", "the cluster did not become whole before the first step")

    def recover(self) -> None:
        """Heal everything; then the cluster has to recover in time (V-4, V-5)."""
        for label in self.traps.traps:
            self.traps.open(label)
        self.cluster.transport.mend(frozenset(self.cluster.network.cut))
        for node, machine in self.cluster.machines.items():
            machine.fsync_us = 500
            self.cluster.resume(node)
            if machine.node is None:
                self.cluster.start(node)
        if not self._pass(_WHOLE_MS, self._is_whole):
            raise Violation(
                "V-4", f"the cluster is not whole {_WHOLE_MS // 1000} s after the last step: {self._partition_state()}"
            )
        if not self._pass(_WHOLE_MS, lambda: all(send.status for send in self.client.sends if send.retry)):
            raise Violation("V-5", f"a produce did not end within {_WHOLE_MS // 1000} s after the last step")
        self.client.give_up(self.cluster)

    def read_all(self) -> None:
        """Read the whole log from its leader, as the final reads."""
        leader = partition_states(self.cluster)[0].leader
        self.ends = {0: dict(brokers(self.cluster))[leader].replicas[TOPIC, 0].high_watermark}
        if self.client.read(self.cluster, leader, "final") is None:
            raise Violation("V-5", f"broker {leader} leads and shows nothing")

    def _is_whole(self) -> bool:
        return is_whole(self.cluster)

    def _partition_state(self) -> str:
        return "; ".join(
            f"leader {state.leader}, ISR {list(state.isr)}, ELR {list(state.elr)}"
            for state in partition_states(self.cluster)
        )

    # --- steps -------------------------------------------------------------------------------------------------------

    def perform(self, step: ScheduleStep) -> None:
        """Execute one step. Raises `DirectedScheduleError` if it is impossible, `Violation` if a property is broken."""
        self.cluster.say(f"step {step.number}: {step.kind} {dict(step.arguments)}")
        getattr(self, "_" + step.kind.replace("-", "_"))(step, step.arguments)

    def _impossible(self, step: ScheduleStep, why: str) -> DirectedScheduleError:
        return DirectedScheduleError(f"{self.schedule.path.name}: step {step.number} ({step.kind}): {why}")

    def _pass(self, for_ms: int, done: Callable[[], bool]) -> bool:
        return done() or self.cluster.run_until(self.cluster.now_us + for_ms * MS, done)

    def _node(self, step: ScheduleStep, name: object) -> int:
        """Resolve a node's number, or a role that a node has at the moment."""
        if isinstance(name, int):
            if name not in self.cluster.machines:
                raise self._impossible(step, f"expected a node, found {name}")
            return name
        states = partition_states(self.cluster)
        if name == "controller":
            found = active_controller(self.cluster)
        elif name == "leader":
            found = states[0].leader if states and states[0].leader >= 0 else None
        elif name == "follower":
            found = next((node for node in states[0].isr if node != states[0].leader), None) if states else None
        else:
            raise self._impossible(step, f"expected a node's number, leader, follower or controller, found {name!r}")
        if found is None:
            raise self._impossible(step, f"expected a {name}, found none")
        return found

    def _nodes(self, step: ScheduleStep, names: Any) -> frozenset[int]:  # noqa: ANN401
        found: set[int] = set()
        for name in names if isinstance(names, list) else [names]:
            if name == "clients":
                found.add(CLIENT)
            elif name == "controllers":
                found |= {node for node in self.cluster.machines if node not in self.brokers}
            elif name == "brokers":
                found |= set(self.brokers)
            else:
                found.add(self._node(step, name))
        return frozenset(found)

    def _produce(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        to = self.client.known_leader if arguments.get("to") == "known" else None
        if to is None:
            to = self._node(step, arguments["to"] if arguments.get("to", "known") != "known" else "leader")
        self.client.known_leader = to
        self.client.produce(
            self.cluster,
            tuple(arguments["values"]),
            to,
            acks=_ALL_ACKS[arguments.get("acks", "all")],
            retry=arguments.get("retry", False),
            producer=arguments.get("producer"),
            timeout_ms=arguments.get("timeout", 30_000),
            compression=arguments.get("compression", "none"),
            padding_bytes=arguments.get("padding", 0),
        )

    def _wait(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        within_ms = arguments.get("within", _PATIENCE_MS)
        if not self._pass(within_ms, lambda: shortfall(self, arguments) is None):
            raise self._impossible(step, f"{shortfall(self, arguments)} after {within_ms} ms")

    def _expect(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        within_ms = arguments.get("within", _PATIENCE_MS)
        if not self._pass(within_ms, lambda: shortfall(self, arguments) is None):
            self.clients_know = any(condition in arguments for condition in _KNOWN_TO_CLIENTS)
            raise Violation(
                arguments["property"], f"step {step.number}: {shortfall(self, arguments)} after {within_ms} ms"
            )

    def _trap(self, step: ScheduleStep, arguments: Mapping[str, Any], *, keeps: bool) -> None:
        label = arguments.get("as", arguments["message"])
        if label in self.traps.traps and self.traps.traps[label].left != 0:
            raise self._impossible(step, f"expected a new label, found {label!r}, which still takes messages")
        self.traps.traps[label] = Trap(
            arguments["message"],
            arguments.get("direction", "request"),
            self._nodes(step, arguments["from"]) if "from" in arguments else None,
            self._nodes(step, arguments["to"]) if "to" in arguments else None,
            arguments.get("offset"),
            arguments.get("count", -1),
            keeps,
            arguments.get("skip", 0),
        )

    def _hold(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self._trap(step, arguments, keeps=True)

    def _drop(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self._trap(step, arguments, keeps=False)

    def _release(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        if not self.traps.held.get(arguments["label"]):
            raise self._impossible(step, f"expected messages held as {arguments['label']!r}, found none")
        self.traps.release(arguments["label"], arguments.get("count"))

    def _let(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        if arguments["label"] not in self.traps.traps:
            raise self._impossible(step, f"expected a hold or a drop {arguments['label']!r}, found none")
        self.traps.open(arguments["label"])

    def _crash(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        for node in self._nodes(step, arguments["node"]):
            if self.cluster.machines[node].node is None:
                raise self._impossible(step, f"expected node {node} to be up, found it down")
            survival = Survival[arguments["survival"].upper()] if "survival" in arguments else None
            self.cluster.kill(node, survival)
            if arguments.get("disk") == "lost":
                self.cluster.lose_disk(node)

    def _start(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        for node in sorted(self._nodes(step, arguments["node"])):
            if self.cluster.machines[node].node is not None:
                raise self._impossible(step, f"expected node {node} to be down, found it up")
            self.cluster.start(node)

    def _restart(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        """Start a node; one that is up, as it may be in one of the two builds, is killed first."""
        for node in sorted(self._nodes(step, arguments["node"])):
            if self.cluster.machines[node].node is not None:
                self.cluster.kill(node)
            self.cluster.start(node)

    def _stop(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        for node in sorted(self._nodes(step, arguments["node"])):
            self.cluster.stop(node)

    def _pause(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        for node in self._nodes(step, arguments["node"]):
            self.cluster.pause(node)

    def _resume(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        for node in sorted(self._nodes(step, arguments["node"])):
            self.cluster.resume(node)

    def _links(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> frozenset[tuple[int, int]]:
        one, other = self._nodes(step, arguments["between"]), self._nodes(step, arguments["and"])
        links = {(a, b) for a in one for b in other if a != b}
        return frozenset(links if arguments.get("one_way") else links | {(b, a) for a, b in links})

    def _cut(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self.cluster.transport.cut(self._links(step, arguments))

    def _mend(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self.cluster.transport.mend(self._links(step, arguments) if arguments else frozenset(self.cluster.network.cut))

    def _slow_fsync(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        for node in self._nodes(step, arguments["node"]):
            self.cluster.machines[node].fsync_us = arguments["ms"] * MS

    def _tear_append(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self.cluster.machines[self._node(step, arguments["node"])].disk.tears_next_append_at = arguments["bytes"]

    def _elapse(self, _: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self.cluster.run_until(self.cluster.now_us + arguments["ms"] * MS)

    # --- administration ----------------------------------------------------------------------------------------------

    def _administer(self, request: AnyRequest, to: int | None = None) -> AnyResponse | None:
        answers: list[AnyResponse | None] = []
        up = [node for node in self.brokers if self.cluster.machines[node].node is not None]
        reachable = [node for node in up if not self._is_cut_off(node)]
        target = to if to is not None else (reachable or up)[0]
        self.client.ask(self.cluster, target, request, lambda _, answer: answers.append(answer), 5_000)
        self._pass(6_000, lambda: bool(answers))
        return answers[0] if answers else None

    def _is_cut_off(self, node: int) -> bool:
        others: Iterable[int] = (other for other in self.cluster.machines if other not in self.brokers)
        return any((node, other) in self.cluster.network.cut for other in others)

    def _reassign(self, _: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        replicas = None if arguments.get("cancel") else tuple(arguments["replicas"])
        self._administer(AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, replicas),), 1_000))

    def _elect(self, _: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self._administer(ElectLeadersRequest(_ELECTIONS[arguments.get("kind", "preferred")], ((TOPIC, 0),)))

    def _set(self, _: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        operation = ConfigOperation(arguments["key"], 0, arguments["value"])
        self._administer(IncrementalAlterConfigsRequest((ConfigResource(2, TOPIC, (operation,)),)))

    def _create_topic(self, _: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self._administer(CreateTopicsRequest((NewTopic(arguments["name"], 1, 1),), 1_000))

    def _delete_records(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        offset = arguments["offset"]
        self.deleted[0] = max(offset, self.deleted.get(0, 0))
        request = DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, offset),))
        self._administer(request, self._node(step, "leader"))

    def _read(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self.client.read(self.cluster, self._node(step, arguments.get("from", "leader")), "main")

    def _latest(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        end = self.client.latest(self.cluster, self._node(step, arguments.get("from", "leader")))
        if end is not None and end < arguments.get("at_least", 0):
            self.clients_know = True
            raise Violation(
                "P-9", f"step {step.number}: the log ended at {arguments['at_least']}, now it ends at {end}"
            )

    def _look_up(self, step: ScheduleStep, arguments: Mapping[str, Any]) -> None:
        self.client.look_up(self.cluster, self._node(step, arguments.get("from", "leader")), arguments["time"])
