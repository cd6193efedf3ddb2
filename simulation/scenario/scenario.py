"""Runs one simulated test: set-up, faults, healing, recovery, the sole-survivor phase, final reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from broker.core.configuration.settings import STRATEGIES, Role, Settings
from broker.core.messages import (
    Listener,
    NewTopic,
)
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import Observer, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import brokers, every_partition, is_whole, partition_states
from simulation.engine.transport import CLIENTS_FROM
from simulation.examination.examination import examine
from simulation.examination.examiner import Examiner
from simulation.faults.nemesis import SimulatedNemesis
from simulation.invariants.liveness import unmet
from simulation.invariants.properties import Violation
from simulation.invariants.topics import leftovers
from simulation.scenario.clocks import clock_ahead_ms
from simulation.scenario.configuration import Configuration, SimulatedFault, draw_faults
from simulation.scenario.groups import SimulatedGroup, group_settings
from simulation.scenario.phases import RECOVERY_MS, SimulatedTest, SimulationOutcome, unreliable_network
from simulation.scenario.search import configuration_of
from simulation.workload.clients import TOPIC
from simulation.workload.interfaces import Clients
from simulation.workload.keyed_topic import CONFIGS as KEYED_CONFIGS
from simulation.workload.keyed_topic import KeyedTopic
from simulation.workload.making import clients_of
from simulation.workload.recording import SimulatedHistory
from simulation.workload.side_settings import SettingsOperator
from simulation.workload.side_topics import SideTopics

_ASK_EVERY_US = 10 * MS
"""Interval of the check that the cluster is whole, which costs as much as several events."""

_QUORUM_FETCH_WAIT_MS = 1_000
"""Half of the time after which a voter gives up its leader."""

_SNAPSHOT_PIECE_BYTES = 256
"""At least: a snapshot sent byte by byte takes ten thousand requests, and tests nothing that five would not."""

_FETCH_BYTES = 1 << 20
"""What a follower asks for of one partition; of all together ten times as much. The broker's defaults."""

_COMPACTION_MS = 500

_RETRY_MS = 250
"""Longer than the broker's default: a broker that is not registered yet repeats its requests all the time."""

_RETENTION_CHECK_MS, _IDLE_CHECK_MS, _SELDOM_MS, _DAY_MS = 1_000, 500, 300_000, 86_400_000
_UNLIMITED = -1
"""Of topics without a setting of their own: the batches of some clients have no times."""

_NEVER_MS = 1 << 40
"""A broker that cannot register goes on trying: a fault may last for most of a run."""


def settings_of(configuration: Configuration) -> list[Settings]:
    """Settings of all nodes: controllers from 100 on, or the first brokers if roles are combined; brokers from 1 on."""
    controllers = controllers_of(configuration)
    broker_ids = range(1, configuration.brokers + 1)
    nodes = []
    for node_id in dict.fromkeys((*controllers, *broker_ids)):
        roles: tuple[Role, ...] = ("broker",) if node_id in broker_ids else ()
        nodes.append(
            Settings(
                node_id=node_id,
                roles=(*roles, "controller") if node_id in controllers else roles,
                voters=dict.fromkeys(controllers, ("controller", 1)),
                listeners=(Listener("CLIENT", f"b{node_id}", 1), Listener("BROKER", f"b{node_id}", 2)),
                log_dirs=log_dirs_of(configuration, node_id),
                log_flush_interval_messages=configuration.flush_messages,
                log_flush_interval_ms=configuration.flush_ms,
                min_insync_replicas=min_isr_of_file(configuration, node_id),
                unclean_leader_election_enable=configuration.unclean_election,
                unclean_recovery_strategy=(
                    None if configuration.unclean_election else STRATEGIES[configuration.unclean_recovery.lower()]
                ),
                controlled_shutdown_timeout_ms=configuration.controlled_shutdown_ms,
                initial_broker_registration_timeout_ms=_NEVER_MS,
                broker_session_timeout_ms=configuration.session_timeout_ms,
                broker_heartbeat_interval_ms=configuration.heartbeat_ms,
                replica_lag_time_max_ms=configuration.lag_ms,
                replica_fetch_wait_max_ms=configuration.fetch_wait_ms,
                metadata_fetch_wait_max_ms=_QUORUM_FETCH_WAIT_MS
                if node_id in controllers
                else configuration.fetch_wait_ms,
                metadata_retry_backoff_ms=_RETRY_MS,
                replica_fetch_max_bytes=configuration.fetch_bytes or _FETCH_BYTES,
                replica_fetch_response_max_bytes=configuration.fetch_bytes or 10 * _FETCH_BYTES,
                metadata_snapshot_records=configuration.metadata_snapshot_records,
                metadata_fetch_max_bytes=configuration.metadata_fetch_bytes,
                metadata_snapshot_fetch_max_bytes=max(configuration.metadata_fetch_bytes, _SNAPSHOT_PIECE_BYTES),
                rack=f"rack {node_id % configuration.racks}" if configuration.racks else None,
                replica_selector="rack-aware" if configuration.racks else "leader",
                generation=configuration.generation,
                flaws=configuration.flaws,
                auto_create_topics_enable=True,
                log_cleaner_backoff_ms=_COMPACTION_MS,
                producer_id_expiration_ms=configuration.producer_expiration_ms or _DAY_MS,
                producer_id_expiration_check_interval_ms=(
                    _IDLE_CHECK_MS if configuration.producer_expiration_ms else 2 * _SELDOM_MS
                ),
                log_retention_ms=_UNLIMITED,
                log_retention_check_interval_ms=_RETENTION_CHECK_MS if _deletes(configuration) else _SELDOM_MS,
                **group_settings(),
            )
        )
    return nodes


def _topic_configs(configuration: Configuration) -> tuple[tuple[str, str], ...]:
    if configuration.compacted:
        return KEYED_CONFIGS
    configs = []
    if configuration.segment_bytes:
        configs.append(("segment.bytes", str(configuration.segment_bytes)))
        configs.append(("index.interval.bytes", str(configuration.index_interval_bytes)))
    if configuration.retention_ms:
        configs.append(("retention.ms", str(configuration.retention_ms)))
    if configuration.retention_bytes:
        configs.append(("retention.bytes", str(configuration.retention_bytes)))
    if configuration.log_append_time:
        configs.append(("message.timestamp.type", "LogAppendTime"))
    return tuple(configs)


def _deletes(configuration: Configuration) -> bool:
    return bool(configuration.retention_ms or configuration.retention_bytes)


def log_dirs_of(configuration: Configuration, node_id: int) -> tuple[str, ...]:
    """A node's log directories; a node that is a controller alone has one."""
    if node_id > configuration.brokers:
        return ("/",)
    return ("/", *(f"/{index}" for index in range(1, configuration.log_directories)))


def min_isr_of_file(configuration: Configuration, node_id: int) -> int:
    """What a node's own file says; the cluster's min ISR is that of the controllers' files."""
    if node_id in controllers_of(configuration):
        return configuration.min_insync_replicas
    return configuration.min_isr_of_brokers or configuration.min_insync_replicas


def controllers_of(configuration: Configuration) -> range:
    """Node ids of the controllers."""
    first = 1 if configuration.combined else 100
    return range(first, first + configuration.controllers)


def run(
    choices: ChoiceSequence,
    *,
    overrides: Mapping[str, object] | None = None,
    faults: Sequence[SimulatedFault] | None = None,
    observers: Sequence[Observer] = (),
    keep_log: bool = False,
) -> SimulationOutcome:
    """Simulate a choice sequence. `overrides` replace parts of its configuration, `faults` its schedule."""
    configuration = configuration_of(choices, overrides)
    if faults is None:
        faults = draw_faults(choices["schedule"], configuration)
    cluster = SimulatedCluster(choices, settings_of(configuration), observers)
    for node_id, machine in cluster.machines.items():
        machine.time_ahead_ms = clock_ahead_ms(configuration, node_id)
    if keep_log:
        cluster.log_entries = []
    history = SimulatedHistory()
    with clients_of(configuration, cluster, history) as clients:
        test = _Test(cluster, configuration, faults, history, clients)
        outcome = test.outcome(choices)
    return replace(
        outcome,
        deleted=test.nemesis.administration.deleted,
        clocks_jumped_ms=max(machine.clock.now_ms(cluster.now_us) for machine in cluster.machines.values())
        - cluster.now_us // MS,
    )


class _Test(SimulatedTest):
    def __init__(
        self,
        cluster: SimulatedCluster,
        configuration: Configuration,
        faults: Sequence[SimulatedFault],
        history: SimulatedHistory,
        clients: Clients,
    ) -> None:
        super().__init__(cluster, configuration, faults, history, clients)
        first = CLIENTS_FROM + len(self.producers) + len(self.readers)
        ids = iter(range(first, CLIENTS_FROM + 1_000))
        self.group = SimulatedGroup(configuration, ids, self.history)
        cluster.clients |= {member.client_id: member for member in self.group.members}
        broker_ids = range(1, configuration.brokers + 1)
        self.side_topics = SideTopics(next(ids), broker_ids, configuration.replication_factor)
        cluster.clients[self.side_topics.client_id] = self.side_topics
        self.examiner = Examiner(next(ids), producers_expire=bool(configuration.producer_expiration_ms))
        cluster.clients[self.examiner.client_id] = self.examiner
        self.nemesis = SimulatedNemesis(cluster, configuration, self.history)
        initial = dict(_topic_configs(configuration))
        self.side_settings = SettingsOperator(next(ids), configuration, initial, self.nemesis.losses)
        cluster.clients[self.side_settings.client_id] = self.side_settings
        self.keyed_topic = KeyedTopic(next(ids), broker_ids, configuration.replication_factor)
        cluster.clients[self.keyed_topic.client_id] = self.keyed_topic

    def _main_phase(self) -> None:
        with unreliable_network(self.cluster, self.configuration):
            self.nemesis.plan(list(self.faults))
            self._start_clients()
            self.group.start(self.cluster)
            if self.configuration.side_topics:
                self.side_topics.start(self.cluster)
            if self.configuration.keyed_topic:
                self.keyed_topic.start(self.cluster)
            if self.configuration.changing_settings:
                self.side_settings.start(self.cluster)
            self.cluster.run_until(self.configuration.duration_ms * MS)
        self.cluster.say("everything is healed")
        self.nemesis.heal()
        if self.configuration.changing_settings:
            self.side_settings.restore(self.cluster)

    def _recover(self) -> None:
        self.side_topics.stopped = True
        self.keyed_topic.stopped = True
        self._finish_sending()
        self.group.settle(self.cluster, RECOVERY_MS)
        self._wait_until_whole("after the last fault was healed")
        if self.configuration.sole_survivor:
            self._sole_survivor_phase()
        if not self.cluster.run_until(
            self.cluster.now_us + RECOVERY_MS * MS, lambda: not leftovers(self.cluster), _ASK_EVERY_US
        ):
            raise Violation("V-12", f"no topic has the logs {', '.join(leftovers(self.cluster))}")

    def _progress(self) -> Callable[[], bool]:
        if self.configuration.acks == 0:  # without answers the producer counts every send as acknowledged
            end = self._log_end()
            return lambda: self._log_end() > end
        return super()._progress()

    def _log_end(self) -> int:
        """The sum of the log ends of all leaders."""
        by_broker = dict(brokers(self.cluster))
        total = 0
        for number, state in enumerate(partition_states(self.cluster)):
            leader = by_broker.get(state.leader)
            replica = leader.replicas.get((TOPIC, number)) if leader is not None else None
            total += replica.log.end_offset if replica is not None else 0
        return total

    def _set_up(self) -> None:
        for node_id in self.cluster.machines:
            self.cluster.start(node_id)
        ready = self.cluster.run_until(20_000 * MS, self._all_ready)
        if not ready:
            raise Violation("V-1", "not all nodes became ready within 20 s")
        configs = _topic_configs(self.configuration)
        topic = NewTopic(TOPIC, self.configuration.partitions, self.configuration.replication_factor, configs=configs)
        self._create(topic)
        self.cluster.run_until(self.cluster.now_us + 10_000 * MS, self._is_whole)

    def _all_ready(self) -> bool:
        return all(machine.node is not None and machine.node.is_ready() for machine in self.cluster.machines.values())

    def _is_whole(self) -> bool:
        return self._all_ready() and is_whole(self.cluster)

    def _wait_until_whole(self, when: str) -> None:
        if not self.cluster.run_until(self.cluster.now_us + RECOVERY_MS * MS, self._is_whole, _ASK_EVERY_US):
            raise unmet(self.cluster, f"{RECOVERY_MS // 1000} s {when}")

    def _sole_survivor_phase(self) -> None:
        """Leave each broker alone for a while, so that records it lacks are lost, then start the others again."""
        for last in range(1, self.configuration.brokers + 1):
            others = [node for node in range(1, self.configuration.brokers + 1) if node != last]
            self.cluster.say(f"sole-survivor phase: only broker {last} stays up")
            for node in others:
                self.cluster.kill(node)
            wait_us = 3 * self.configuration.session_timeout_ms * MS
            self.cluster.run_until(self.cluster.now_us + wait_us, partial(self._leads_all, last), _ASK_EVERY_US)
            for node in others:
                self.cluster.start(node)
            self._wait_until_whole(f"after broker {last} was alone")

    def _leads_all(self, broker_id: int) -> bool:
        mine = [state for *_, state in every_partition(self.cluster) if broker_id in state.replicas]
        return all(state.leader == broker_id for state in mine)

    def _read_everything(self) -> None:
        self.cluster.say("the final reads")
        by_broker = dict(brokers(self.cluster))
        for number, state in enumerate(partition_states(self.cluster)):
            self.ends[number] = by_broker[state.leader].replicas[TOPIC, number].high_watermark
        for reader in self.readers:
            reader.partitions = len(self.ends)
            reader.assign_from_start()
            reader.interval_ms = 1

        self.group.begin_final(self.cluster)
        self._read_to_ends(lambda: self.group.has_answers)
        if self.configuration.examination:
            self.cluster.say(f"the examination: {self.configuration.examination}")
            examine(self.examiner, self.cluster, self.configuration, len(self.ends))
