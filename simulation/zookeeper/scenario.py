"""Runs one simulated test of a design on ZooKeeper: set-up, faults, healing, recovery, final reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from broker.core.configuration.settings import Settings
from broker.core.messages import Listener, NewTopic
from broker.zookeeper import paths
from broker.zookeeper.choices import CONTROLLED, V1
from broker.zookeeper.paths import Key
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import Observer, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.transport import CLIENTS_FROM
from simulation.invariants.properties import Violation, with_excuse
from simulation.scenario.configuration import Configuration, SimulatedFault, draw_faults
from simulation.scenario.phases import RECOVERY_MS, SimulatedTest, SimulationOutcome, unreliable_network
from simulation.scenario.search import configuration_of
from simulation.workload.clients import TOPIC
from simulation.workload.interfaces import Clients
from simulation.workload.making import MODEL, clients_of
from simulation.workload.recording import SimulatedHistory
from simulation.workload.side_topics import SideTopics
from simulation.zookeeper.ensemble import SimulatedEnsemble
from simulation.zookeeper.evidence import STALE_REQUEST, UNNOTICED
from simulation.zookeeper.nemesis import KINDS, LOSSY, REASSIGNMENT, ZooKeeperNemesis
from simulation.zookeeper.observer import ENDS_INSIDE, TWO_LEADERS
from simulation.zookeeper.views import ends_inside_batch, ids_at, open_leader, states, unnoticed, wrongly_stopping

_ASK_EVERY_US = 20 * MS
_CHECKPOINT_MS = 1_000
_BACKOFF_MS = 200


def configured(drawn: Configuration) -> Configuration:
    """A drawn configuration as far as the designs know what is in it.

    They have no idempotent producers, compaction or groups, and acknowledge after the leader's append or after all
    in-sync replicas' (Q27). Only with a controller there is a min ISR, and nothing is reassigned. Faults that lose data
    are only in seeds that may lose some.
    """
    controlled = drawn.generation in CONTROLLED
    left_out = {*(() if drawn.lossy_budget else LOSSY), *((REASSIGNMENT,) if controlled else ())}
    kinds = tuple(kind for kind in drawn.faults if kind in KINDS and kind not in left_out)
    return replace(
        drawn,
        controllers=1,
        combined=False,
        acks=-1 if drawn.acks == -1 else 1,
        idempotence=False,
        min_insync_replicas=drawn.min_insync_replicas if controlled else 1,
        min_isr_of_brokers=0,
        unclean_election=False,
        unclean_recovery="Balanced",
        lossy_budget=int(any(kind in LOSSY for kind in kinds)),
        compacted=False,
        compression="none",
        group_members=0,
        keyed_topic=False,
        racks=0,
        changing_settings=False,
        log_directories=1,
        fetch_bytes=0,
        examination="",
        in_flight=1,
        retention_ms=0,
        retention_bytes=0,
        log_append_time=False,
        clock_error_ms=0,
        producer_expiration_ms=0,
        sole_survivor=False,
        client=MODEL,
        faults=kinds,
    )


def settings_of(configuration: Configuration) -> list[Settings]:
    """Settings of the brokers, which are numbered from 1 on. `lag_ms` is `KeepInSyncTime`."""
    return [
        Settings(
            node_id=node_id,
            voters={},
            listeners=(Listener("CLIENT", f"b{node_id}", 1),),
            log_dirs=("/",),
            log_flush_interval_messages=configuration.flush_messages,
            log_flush_interval_ms=configuration.flush_ms,
            high_watermark_checkpoint_interval_ms=_CHECKPOINT_MS,
            broker_session_timeout_ms=configuration.session_timeout_ms,
            replica_lag_time_max_ms=configuration.lag_ms,
            min_insync_replicas=configuration.min_insync_replicas if configuration.generation in CONTROLLED else 1,
            replica_fetch_wait_max_ms=configuration.fetch_wait_ms,
            replica_fetch_backoff_ms=_BACKOFF_MS,
            generation=configuration.generation,
            flaws=configuration.flaws,
        )
        for node_id in range(1, configuration.brokers + 1)
    ]


def run(
    choices: ChoiceSequence,
    *,
    overrides: Mapping[str, object] | None = None,
    faults: Sequence[SimulatedFault] | None = None,
    observers: Sequence[Observer] = (),
    keep_log: bool = False,
) -> SimulationOutcome:
    """Simulate a choice sequence, as `simulation.scenario.scenario.run` does those of KRaft."""
    configuration = configured(configuration_of(choices, overrides))
    if faults is None:
        faults = draw_faults(choices["schedule"], configuration)
    controlled = configuration.generation in CONTROLLED
    faults = [fault for fault in faults if fault.kind in KINDS and not (controlled and fault.kind == REASSIGNMENT)]
    cluster = SimulatedCluster(choices, settings_of(configuration), observers)
    ensemble = SimulatedEnsemble(cluster, choices["zookeeper"], configuration.generation)
    cluster.ensemble = ensemble
    if keep_log:
        cluster.log_entries = []
    history = SimulatedHistory()
    with clients_of(configuration, cluster, history) as clients:
        return _Test(cluster, ensemble, configuration, faults, history, clients).outcome(choices)


class _Test(SimulatedTest):
    def __init__(
        self,
        cluster: SimulatedCluster,
        ensemble: SimulatedEnsemble,
        configuration: Configuration,
        faults: Sequence[SimulatedFault],
        history: SimulatedHistory,
        clients: Clients,
    ) -> None:
        super().__init__(cluster, configuration, faults, history, clients)
        self.ensemble = ensemble
        self.side_topics = SideTopics(
            CLIENTS_FROM + len(self.producers) + len(self.readers),
            range(1, configuration.brokers + 1),
            configuration.replication_factor,
        )
        cluster.clients[self.side_topics.client_id] = self.side_topics
        self.nemesis = ZooKeeperNemesis(cluster, ensemble, configuration, history)

    def _set_up(self) -> None:
        for node_id in self.cluster.machines:
            self.cluster.start(node_id)
        if not self.cluster.run_until(20_000 * MS, self._all_ready):
            raise Violation("V-1", "not all brokers became ready within 20 s")
        self._create(NewTopic(TOPIC, self.configuration.partitions, self.configuration.replication_factor))
        if not self.cluster.run_until(self.cluster.now_us + 20_000 * MS, self._all_lead, _ASK_EVERY_US):
            raise Violation("V-3", "not every partition has a leader 20 s after its creation")

    def _main_phase(self) -> None:
        with unreliable_network(self.cluster, self.configuration):
            self.nemesis.plan(self.faults)
            self._start_clients()
            if self.configuration.side_topics:
                self.side_topics.start(self.cluster)
            self.cluster.run_until(self.configuration.duration_ms * MS)
        self.cluster.say("everything is healed")
        self.nemesis.heal()

    def _recover(self) -> None:
        """V-3, V-5, V-6: after healing every partition is led, every producer gets one more acknowledgement.

        And every partition has moved that an administrator wanted to have elsewhere.
        """
        self.side_topics.stopped = True
        if not self.cluster.run_until(self.cluster.now_us + RECOVERY_MS * MS, self._all_lead, _ASK_EVERY_US):
            self._not_led(f"not every partition has a leader {RECOVERY_MS // 1000} s after healing")
        try:
            self._finish_sending()
        except Violation as violation:
            if violation.property_id != "V-5":
                raise
            what = str(violation).removeprefix(f"{violation.property_id}: ")
            raise Violation(violation.property_id, self._with_excuse(what)) from None
        until_us = self.cluster.now_us + RECOVERY_MS * MS
        if not self.cluster.run_until(until_us, lambda: not self._moving(), _ASK_EVERY_US):
            self._not_moved()

    def _read_everything(self) -> None:
        self.cluster.say("the final reads")
        if not self.cluster.run_until(self.cluster.now_us + RECOVERY_MS * MS, self._all_lead, _ASK_EVERY_US):
            self._not_led(f"not every partition has a leader {RECOVERY_MS // 1000} s after the last write")
        for number in range(self.configuration.partitions):
            hosted = open_leader(self.cluster, self.ensemble.tree, (TOPIC, number))
            assert hosted is not None
            self.ends[number] = hosted.replica.high_watermark
        for reader in self.readers:
            reader.assign_from_start()
            reader.interval_ms = 1
        self._read_to_ends()

    def _not_led(self, what: str) -> NoReturn:
        raise Violation("V-3", self._with_excuse(what))

    def _with_excuse(self, what: str) -> str:
        """With a controller, what it causes that it does not tell a broker's process from an earlier one.

        In the first design, that nobody is in an ISR who could be elected, because a deposed leader has written it.
        """
        excuse = UNNOTICED if unnoticed(self.cluster) else STALE_REQUEST if wrongly_stopping(self.cluster) else ""
        unled = self._unled()
        if self.configuration.generation == V1 and unled and self.ensemble.overwritten.issuperset(unled):
            excuse = TWO_LEADERS
        return with_excuse(what, self.configuration.generation, excuse)

    def _all_ready(self) -> bool:
        return sum(state.is_registered for _, state in states(self.cluster)) == len(self.cluster.machines)

    def _all_lead(self) -> bool:
        return not self._unled()

    def _moving(self) -> dict[Key, tuple[int, ...]]:
        """The partitions that are to have other replicas, and which."""
        keys = [(TOPIC, number) for number in range(self.configuration.partitions)]
        wanted = {key: ids_at(self.ensemble.tree, paths.reassigned(key)) for key in keys}
        return {key: replicas for key, replicas in wanted.items() if replicas}

    def _not_moved(self) -> NoReturn:
        """Excused are partitions of which a new replica asks for what lies inside a batch of its leader's."""
        moving = self._moving()
        what = ", ".join(f"{key[0]}-{key[1]} to {list(replicas)}" for key, replicas in moving.items())
        is_stuck = all(
            any(ends_inside_batch(self.cluster, self.ensemble.tree, key, one) for one in replicas)
            for key, replicas in moving.items()
        )
        text = f"not moved {RECOVERY_MS // 1000} s after the last write: {what}"
        raise Violation("V-6", with_excuse(text, self.configuration.generation, ENDS_INSIDE if is_stuck else ""))

    def _unled(self) -> list[Key]:
        """The partitions that the tree names no open leader of."""
        keys = [(TOPIC, number) for number in range(self.configuration.partitions)]
        return [key for key in keys if open_leader(self.cluster, self.ensemble.tree, key) is None]
