"""The observer: checks the protocol's properties after every step, with access to the memory of every node (§20).

It keeps a *ghost log* of what is committed and a *mirror* of every replica, and inspects only the node that has just
reacted, and of that only what has changed. One object observes one simulation.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.broker_node.isr_changes import SHRINK
from broker.core.broker_node.node import BrokerNode
from broker.core.broker_node.requests.deletion import IDLE_PRODUCERS
from broker.core.broker_node.state import BrokerState
from broker.core.controller.node import ControllerNode
from broker.core.messages import (
    ElectLeadersRequest,
    FetchRequest,
)
from broker.core.node import CombinedNode
from broker.core.ports.events import (
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    TimerFired,
)
from broker.core.replica.state import Replica, Role
from broker.core.rules import Rules
from simulation.engine.cluster import EventStep, Observer, SimulatedCluster, fingerprint
from simulation.invariants import (
    checkpoints,
    committed,
    compactions,
    derived,
    directories,
    intervals,
    isr_proposals,
    log_files,
    log_starts,
    messages,
    metadata,
    processes,
    quorum,
    recoveries,
    replicas,
    topics,
)
from simulation.invariants.administration import answers, deletion
from simulation.invariants.answers import (
    controllers_asked,
    followers,
    of_leaders,
    refusals,
    to_brokers,
)
from simulation.invariants.expiry import SeenProducers
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.groups import checks, rebalances
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.progress import isr, requests, stops, waits
from simulation.invariants.properties import Violation, not_judged


class PropertyObserver:
    """See the module. Raises `Violation`; after that it must not be called any more."""

    def __init__(self, unjudged: frozenset[str] = frozenset()) -> None:
        self._known: Knowledge | None = None
        self._unjudged = unjudged

    @property
    def known(self) -> Knowledge:
        """What has been observed so far; only after the first event."""
        assert self._known is not None
        return self._known

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        disk = cluster.machines[step.node_id].disk
        if disk.unreadable_directories:
            with disk.laid_open():
                self._stepped(cluster, step)
        else:
            self._stepped(cluster, step)

    def _stepped(self, cluster: SimulatedCluster, step: EventStep) -> None:
        known = self._known
        if known is None:
            known = self._known = Knowledge.of(cluster, self._unjudged)
        machine = cluster.machines[step.node_id]
        node = machine.node
        requests.stepped(known, step, machine.incarnation, cluster.now_us)
        stops.stepped(known, step, machine.incarnation, cluster.now_us)
        if isinstance(node, BrokerNode):
            self._broker(known, step, node.state, machine.incarnation)
        elif isinstance(node, ControllerNode):
            self._controller(known, step, node, machine.incarnation)
        elif isinstance(node, CombinedNode):
            self._controller(known, step, node.controller, machine.incarnation)
            self._broker(known, step, node.broker.state, machine.incarnation, has_ended=node.broker_has_ended)
        else:
            processes.exited(known, step, machine)
        if machine.node is not None and step.node_id in known.brokers:
            checkpoints.stepped(known, known.brokers[step.node_id], machine, cluster.now_us)
        isr.check(known, cluster)

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        if self._known is None:
            self._known = Knowledge.of(cluster, self._unjudged)
        with cluster.machines[node_id].disk.laid_open():
            processes.crashed(self._known, cluster, node_id, lost_bytes)

    # --- controllers -------------------------------------------------------------------------------------------------

    def _controller(self, known: Knowledge, step: EventStep, node: ControllerNode, incarnation: int) -> None:
        event = step.event
        if isinstance(event, RequestReceived) and isinstance(event.request, ElectLeadersRequest):
            metadata.election_asked(known, event.request)
        voter = known.voters[step.node_id]
        before = len(voter.entries)
        quorum.stepped(known, voter, node.state, incarnation, event)
        quorum.adopted(voter, node.state.quorum, event)
        quorum.answered(known, voter, event, step.effects)
        quorum.recognized(voter, node.state.quorum, event, step.effects)
        answers.controller_asked(known, step.node_id, event, before)
        topics.controller_stepped(known, step.node_id, step.effects)
        answers.controller_stepped(known, step.node_id, step.effects)
        to_brokers.stepped(known, node.state, incarnation, event, step.effects)
        if isinstance(event, TimerFired):
            decided = len(voter.entries) > before
            intervals.of_controller(known, voter, node.state, incarnation, intervals.own(event.key), decided=decided)
        if known.elects_longest_logs:
            recoveries.decided(known, node.state, event)

    # --- brokers -----------------------------------------------------------------------------------------------------

    def _broker(
        self, known: Knowledge, step: EventStep, state: BrokerState, incarnation: int, *, has_ended: bool = False
    ) -> None:
        """`has_ended`: in a node whose controller goes on, so that the broker gets no events any more."""
        broker = known.brokers[step.node_id]
        event = step.event
        if broker.incarnation != incarnation:
            processes.started(known, broker, incarnation, state)
            directories.check_owner(known.cluster.machines[step.node_id])
        if broker.failed_directories:
            directories.check_failures(broker, known.cluster.machines[step.node_id])
        if event.__class__ is RequestReceived:
            assert isinstance(event, RequestReceived)
            messages.arrived(known, broker, event)
        elif broker.alterations and isinstance(event, (ResponseReceived, RequestFailed)):
            isr_proposals.answered(known, broker, state, event)
        before = broker.image_end
        if state.image.end_offset != before:
            broker.image_end = state.image.end_offset
            broker.furthest = max(broker.furthest, broker.image_end)
            metadata.check_image(known, broker.broker_id, state.image)
            derived.check_min_isr(known, broker.broker_id, state)
            derived.check_settings(known, broker.broker_id, state)
            derived.check_roles(known, broker.broker_id, state)
            derived.check_copy(known, broker.broker_id, state)
            if broker.has_started and len(state.settings.log_dirs) > 1:
                directories.check_placed(known, broker, state)
        broker.image = state.image
        if known.producers_expire and isinstance(event, TimerFired) and _is_idle_check(event) and step.effects:
            derived.idle_looked_for(known, broker, state)
        of_leaders.check(broker, state, event)
        self._replicas(known, broker, state)
        if state.produces:
            waits.check_writes(state)
        compacts = broker.compaction.cleaning if broker.compaction is not None else None
        if state.compaction.cleaning is not compacts:
            compactions.stepped(known, broker, state)
        if broker.deleting:
            deletion.over(known, broker, step)
        if state.broker_epoch != broker.broker_epoch:
            broker.broker_epoch = state.broker_epoch
            for ghost in known.partitions.values():
                committed.check_candidates(known, ghost)
        if state.coordinator.shards or broker.groups_seen:
            rebalances.stepped(known, broker, state, event, step.effects)
        if step.effects:
            messages.sent(known, broker, state, step, before)
        if broker.proposed:
            isr_proposals.check(known, broker, state)
        if has_ended:
            processes.check_at_rest(broker, state)
        else:
            controllers_asked.stepped(known, broker, state, event)
            if isinstance(event, TimerFired) and intervals.own(event.key) == (SHRINK,):
                isr_proposals.watched(known, state)
        if event.__class__ is RequestReceived and state.produces:
            assert isinstance(event, RequestReceived)
            refusals.accepted(known, broker, state, event, before)
        if event.__class__ is RequestReceived and event.request.__class__ is FetchRequest:
            assert isinstance(event, RequestReceived)
            assert isinstance(event.request, FetchRequest)
            if event.request.replica_id >= 0:
                followers.fetched(broker, state, event.request)

    def _replicas(self, known: Knowledge, broker: BrokerMirror, state: BrokerState) -> None:
        mirrors = broker.mirrors
        for key, replica in state.replicas.items():
            mirror = mirrors.get(key)
            log = replica.log
            now = (
                log.end_offset,
                replica.high_watermark,
                replica.partition_epoch,
                replica.leader_epoch,
                replica.role,
                replica.isr,
                replica.pending_isr,
                log.truncations,
                log.start_offset,
                replica.min_insync_replicas,
                log.flushed_offset,
                log.compacted_offset,
            )
            if mirror is not None and mirror.replica is replica and mirror.seen == now:
                continue
            ghost = known.ghost(replica.topic, replica.topic_id, replica.partition)
            if mirror is not None and directories.is_left_behind(broker, mirror, replica):
                processes.power_lost(known, ghost, broker, mirror, disk_lost=True)
                mirror = None
            if (
                mirror is None
                or ghost.mirrors.get(broker.broker_id) is not mirror
                or (mirror.offline and directories.is_another_log(known, ghost, mirror, replica))
            ):
                deleted, _ = ghost.deleted.get(broker.broker_id, (None, 0))
                mirror = ReplicaMirror(broker.broker_id)
                mirrors[key] = ghost.mirrors[broker.broker_id] = mirror
                if deleted is not None and log.end_offset:  # it was deleted for the broker, and its files have stayed
                    mirror.producers = deleted.producers
            if mirror.replica is not replica:
                if mirror.replica is not None and mirror.incarnation == broker.incarnation:
                    mirror.entries.clear()  # RT-8: it was deleted and created again in the same step
                    mirror.same = mirror.durable = 0
                    mirror.producers = SeenProducers()
                    mirror.was_compacted = False
                if broker.has_started:
                    topics.check_new_log(known, ghost, replica)
                mirror.incarnation = broker.incarnation
                derived.check_kept_producers(known, ghost, mirror, replica, state)
                replicas.opened(known, ghost, mirror, replica)
                checkpoints.check_recovery_point(known, ghost, mirror, replica)
                checkpoints.check_certain(known, ghost, mirror, replica)
                mirror.producers.restart()
                derived.check_producers(known, ghost, mirror, replica)
            if replica.pending_isr is not None and (not mirror.seen or mirror.seen[6] != replica.pending_isr):
                broker.proposed.append(replica)
            mirror.seen = now
            if log.start_offset > mirror.start:
                log_starts.check_start(known, ghost, mirror, replica, log_starts.configs_of(state, replica.topic))
            _changed(known, ghost, mirror, replica, state.rules)
            log_files.check(known, ghost, mirror, replica)
            if ghost.times is not None:
                mirror.segments = log_starts.segments_of(known, mirror, replica)
            if known.producers_expire:
                derived.note_producers(known, ghost, mirror, replica)
            if replica.topic == OFFSETS_TOPIC:
                checks.committed_more(known, ghost)
        if not broker.has_started:
            checkpoints.check_names(known, broker, state)
        broker.has_started = True
        if len(mirrors) != len(state.replicas):
            for key in [key for key in mirrors if key not in state.replicas]:
                _removed(known, broker, state, key)


def _is_idle_check(event: TimerFired) -> bool:
    """Whether a broker, alone or as a part of a node of both roles, is to look for idle producers.

    If it does it sets the timer of the next time; one that has stopped, in a node whose controller goes on, does not.
    """
    return isinstance(event.key, tuple) and event.key[-1] in (IDLE_PRODUCERS, (IDLE_PRODUCERS,))


def _changed(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica, rules: Rules) -> None:
    """Check a replica whose state has changed."""
    if replica.leader_epoch < mirror.leader_epoch or replica.partition_epoch < mirror.partition_epoch:
        known.fail(
            ghost,
            "P-19",
            f"broker {mirror.holder} went from leader epoch {mirror.leader_epoch}, partition epoch "
            f"{mirror.partition_epoch} back to {replica.leader_epoch}, {replica.partition_epoch}",
        )
    state = ghost.state
    if state is not None and (
        replica.leader_epoch > state.leader_epoch or replica.partition_epoch > state.partition_epoch
    ):
        known.fail(
            ghost,
            "P-19",
            f"broker {mirror.holder} is in leader epoch {replica.leader_epoch}, partition epoch "
            f"{replica.partition_epoch}; the controller in {state.leader_epoch}, {state.partition_epoch}",
        )
    new_role = replica.role is not mirror.role or replica.leader_epoch != mirror.leader_epoch
    mirror.role, mirror.leader_epoch, mirror.partition_epoch = (
        replica.role,
        replica.leader_epoch,
        replica.partition_epoch,
    )
    log = replica.log
    was_cut = log.truncations != mirror.truncations
    if log.end_offset != len(mirror.entries) or log.truncations != mirror.truncations:
        replicas.log_changed(known, ghost, mirror, replica)
    if log.start_offset > mirror.start:
        replicas.skip_deleted(mirror, log)
    if log.truncations and (was_cut or log.flushed_offset != mirror.flushed):
        checkpoints.check_recovery_point(known, ghost, mirror, replica)
    mirror.flushed = log.flushed_offset
    if log.compacted_offset > mirror.compacted:
        if was_cut:
            compactions.check_cut(known, ghost, mirror, log)
        replicas.compacted(known, ghost, mirror, log)
    mirror.compacted = log.compacted_offset
    mirror.start = log.start_offset
    mirror.durable = max(mirror.durable, log.flushed_offset)
    before, new = mirror.high_watermark, replica.high_watermark
    mirror.high_watermark = new
    mirror.lowest_high_watermark = min(mirror.lowest_high_watermark, new)
    leads = replica.role is Role.LEADER
    if new != before:
        if not was_cut:  # a cut only clamps it (HW-8)
            mirror.learns(replica.leader_epoch)
        if leads:
            committed.high_watermark_of_leader(known, ghost, mirror, before, new)
    elif leads and new_role and mirror.high_watermark_epoch < ghost.since_epoch <= replica.leader_epoch:
        # it was elected uncleanly, maybe some epochs ago, and leads with the high watermark that it has (HW-6)
        committed.high_watermark_of_leader(known, ghost, mirror, min(new, len(ghost.committed)), new)
    committed.check_bounds(known, ghost, mirror, new)
    if new_role or was_cut:
        derived.check_producers(known, ghost, mirror, replica)
    if new_role:
        replicas.check_epochs(known, ghost, mirror, replica)
    if leads:
        ghost.log_start = max(ghost.log_start, mirror.start)
        ghost.starts[replica.leader_epoch] = max(ghost.starts.get(replica.leader_epoch, 0), mirror.start)
        if new_role:
            committed.check_leader(known, ghost, mirror)
            if mirror.holder == ghost.elected and replica.leader_epoch >= ghost.since_epoch:
                ghost.elected = -1
        isr_state = (replica.isr, replica.pending_isr, replica.min_insync_replicas)
        if new_role or isr_state != mirror.isr_state:
            mirror.isr_state = isr_state
            replicas.check_leader_isr(known, ghost, mirror, replica, rules)
            replicas.check_superset(known, ghost, mirror)


def _removed(known: Knowledge, broker: BrokerMirror, state: BrokerState, key: tuple[str, int]) -> None:
    """RT-8: the replica was deleted, and a new one of the same name will start empty; or it is offline (KIP-112)."""
    mirror = broker.mirrors[key]
    if (state.failed_directories or state.offline) and directories.is_offline(known, broker, state, key, mirror):
        return
    del broker.mirrors[key]
    for (topic_id, number), ghost in known.partitions.items():
        if ghost.mirrors.get(broker.broker_id) is mirror:
            del ghost.mirrors[broker.broker_id]
            if mirror.incarnation != broker.incarnation and not mirror.offline:
                if not metadata.may_have_removed(known, ghost, broker, (topic_id, number)):
                    replicas.vanished(known, ghost, mirror)
                    continue
            else:
                ghost.deleted[broker.broker_id] = mirror, state.image.end_offset
                metadata.check_removal(known, ghost, broker.broker_id, state.image.end_offset, (topic_id, number))
            committed.log_deleted(known, ghost, broker.broker_id)


def property_observers(unjudged: frozenset[str] = frozenset()) -> Sequence[Observer]:
    """New observers for one simulation. `unjudged`: properties of rules that its correct build lacks on purpose."""
    return (PropertyObserver(unjudged),)


class FirstViolation:
    """Wraps observers: keeps their first violation, with the hash up to it, and lets the simulation continue."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)
        self.violation: Violation | None = None
        self.digest = ""
        self.events = 0

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        try:
            for observer in self._observers:
                observer.after(cluster, step)
        except Violation as violation:
            self._record(cluster, violation)
        except Exception as error:
            self._record(cluster, not_judged(error, f"after a step of node {step.node_id}"))

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        try:
            for observer in self._observers:
                observer.crashed(cluster, node_id, lost_bytes)
        except Violation as violation:
            self._record(cluster, violation)
        except Exception as error:
            self._record(cluster, not_judged(error, f"after a crash of node {node_id}"))

    def _record(self, cluster: SimulatedCluster, violation: Violation) -> None:
        self.violation = violation
        self.digest, self.events = fingerprint(cluster)
        self._observers = []
        cluster.say(f"VIOLATION of {violation}")
