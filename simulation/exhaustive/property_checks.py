"""Checks every state of an exhaustive search: the step of one broker, and then the whole cluster.

The ghost here is small: what has ever been committed, which broker led which epoch, which replicas restarted without a
clean stop, which have lost data. It is part of the state, since it decides what will be a violation.

The checks of a partition's committed state are those of the observer (`simulation.invariants.partition_state`). The
others are not shared: a search visits states in any order and compares immutable views with logs of a few records,
while the observer follows one run, remembers what it has compared already, and reads batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from broker.core.metadata.records import RECOVERING, PartitionState
from simulation.exhaustive.model.events import Decision, Dies, NodeEvent, NodeOutcome, Record, Starts
from simulation.exhaustive.model.views import BrokerView, ControllerView
from simulation.exhaustive.spec import MIN_ISR
from simulation.invariants.partition_state import broken_epochs, compare_sets

CHECKED = (
    "P-1",
    "P-2",
    "P-3",
    "P-4",
    "P-5",
    "P-6",
    "P-7",
    "P-8",
    "P-9",
    "P-10",
    "P-12",
    "P-16",
    "P-17",
    "P-18",
    "P-19",
    "P-22",
)
"""P-11 needs no check of its own: what a consumer may read is below the high watermark of a leader (P-4, P-10)."""

MODELLED = frozenset({"P-1", "P-2", "P-3", "P-4", "P-12"})
"""The properties that the published models check; the others detect a violation before it does harm."""


class ModelGhost(NamedTuple):
    """What the observer of the whole cluster remembers."""

    committed: tuple[Record, ...] = ()
    leaders: tuple[tuple[int, int], ...] = ()  # (leader epoch, broker that appended in it)
    unclean: frozenset[int] = frozenset()  # restarted without a clean stop, and not added to the ISR since
    lossy: frozenset[int] = frozenset()  # lost data, and not added to the ISR since
    exempt: bool = False
    """More replicas lost data at once than the protocol must survive (ST-8)."""


class Broken(Exception):
    """A property is broken; the message begins with its id."""

    @property
    def property_id(self) -> str:
        """Its id."""
        return str(self).partition(":")[0]


def observe(
    ghost: ModelGhost, node_id: int, outcome: NodeOutcome, view: BrokerView | ControllerView
) -> Iterator[str | ModelGhost]:
    """Yield the properties that a step broke, as texts, and at last the ghost after it."""
    if outcome.fault is not None:
        yield outcome.fault
    for decision in outcome.decisions:
        yield from _check_decision(ghost, decision)
        ghost = _after_decision(ghost, decision)
    if isinstance(view, BrokerView):
        for offset, record in outcome.removed:
            if not ghost.exempt and offset < len(ghost.committed) and ghost.committed[offset] == record:
                yield f"P-6: broker {node_id} cut off offset {offset}, which was committed"
        if outcome.appended >= 0:
            leaders = dict(ghost.leaders)
            other = leaders.setdefault(outcome.appended, node_id)
            if other != node_id:
                yield f"P-8: brokers {other} and {node_id} both appended in leader epoch {outcome.appended}"
            ghost = ghost._replace(leaders=tuple(sorted(leaders.items())))
        if view.leads and view.high_watermark > len(ghost.committed) >= view.log_start:
            first = len(ghost.committed) - view.log_start
            new = view.log[first : view.high_watermark - view.log_start]
            ghost = ghost._replace(committed=ghost.committed + new)
        for value, offset in outcome.acknowledged:
            found = ghost.committed[offset][1] if offset < len(ghost.committed) else None
            if found != value and not ghost.exempt:
                there = "nothing" if found is None else f"value {found}"
                yield f"P-12: value {value} was acknowledged at offset {offset}, where {there} is committed"
    yield ghost


def _check_decision(ghost: ModelGhost, decision: Decision) -> Iterator[str]:
    before, after = decision.before, decision.after
    if before is None or after is None or before == after:
        return
    broken = broken_epochs(before, after)
    if broken is not None:
        yield f"P-19: {broken}"
    yield from _check_sets(after)
    added = set(after.isr) - set(before.isr)
    known = (ghost.unclean | set(decision.registered)) - (added - set(decision.registered))
    wrong = known & ({*after.isr, *after.elr, after.leader})
    if wrong and after.recovery_state != RECOVERING:
        yield f"P-7: broker {min(wrong)} stopped uncleanly and is still eligible: {_sets(after)}"


def _check_sets(state: PartitionState) -> Iterator[str]:
    sets = compare_sets(state, min(MIN_ISR, len(state.replicas)))
    if sets.eligible_twice or sets.last_known_twice or sets.eligible_outside or sets.last_known_outside:
        yield f"P-17: the sets overlap or leave the replicas {list(state.replicas)}: {_sets(state)}"
    if sets.superfluous:
        yield f"P-17: the ISR suffices, and others are still eligible: {_sets(state)}"
    if sets.irrecoverable:
        yield f"P-18: too few replicas to recover from: {_sets(state)}"


def _sets(state: PartitionState) -> str:
    return f"ISR {list(state.isr)}, ELR {list(state.elr)}, last known {list(state.last_known_elr)}"


def _after_decision(ghost: ModelGhost, decision: Decision) -> ModelGhost:
    unclean = ghost.unclean | set(decision.registered)
    lossy = ghost.lossy
    before, after = decision.before, decision.after
    if before is not None and after is not None and before != after:
        added = set(after.isr) - set(before.isr)
        unclean -= added - set(decision.registered)
        lossy -= added
    return ghost._replace(unclean=unclean, lossy=lossy)


def lost_data(ghost: ModelGhost, broker: int) -> ModelGhost:
    """The ghost after a broker has lost records."""
    lossy = ghost.lossy | {broker}
    return ghost._replace(lossy=lossy, exempt=ghost.exempt or len(lossy) > MIN_ISR - 1)


def check_state(
    controller: ControllerView, brokers: Sequence[tuple[int, BrokerView]], ghost: ModelGhost
) -> Iterator[str]:
    """Yield the properties that the present state breaks."""
    state = controller.partition
    if state is None:
        return
    for member in state.isr:
        registered = controller.brokers.get(member)
        if registered is None or not registered.active:
            yield f"P-16: broker {member} is in the ISR and not active: {_sets(state)}"
    living = [(number, view) for number, view in brokers if view.alive and view.role is not None]
    for number, view in living:
        if view.leader_epoch > state.leader_epoch or view.partition_epoch > state.partition_epoch:
            yield f"P-19: broker {number} is ahead of the controller"
    if ghost.exempt:
        return
    committed = ghost.committed
    for number, view in living:
        if view.leads and not _agrees(view, committed, min(view.high_watermark, len(committed))):
            yield f"P-4: broker {number} leads and shows other records than were committed: {_log(view)}"
        if view.leads and view.leader_epoch == state.leader_epoch:
            yield from _check_leader(number, view, state, living, committed)
        registered = controller.brokers.get(number)
        current = registered is not None and registered.epoch == view.broker_epoch
        if current and number in (*state.isr, *state.elr) and not _holds(view, committed):
            yield (
                f"P-2: broker {number} may lead and lacks committed records: {_log(view)}, "
                f"{len(committed)} committed, {_sets(state)}"
            )
    yield from _check_pairs(living)


def _check_leader(
    number: int,
    view: BrokerView,
    state: PartitionState,
    living: Sequence[tuple[int, BrokerView]],
    committed: tuple[Record, ...],
) -> Iterator[str]:
    if not _holds(view, committed):
        yield f"P-1: broker {number} leads without all committed records: {_log(view)}, {len(committed)} committed"
    eligible = {*state.isr, *state.elr}
    if len(view.isr) >= min(MIN_ISR, len(state.replicas)) and not eligible <= view.maximal_isr | {number}:
        yield (
            f"P-5: broker {number} counts on {sorted(view.maximal_isr)} only, and these may lead: {sorted(eligible)}"
        )
    for member, other in living:
        if member in eligible and other.leader_epoch == view.leader_epoch and view.high_watermark > other.log_end:
            yield (
                f"P-10: the high watermark {view.high_watermark} of broker {number} is beyond the log end "
                f"{other.log_end} of broker {member}, which may lead"
            )


def _check_pairs(living: Sequence[tuple[int, BrokerView]]) -> Iterator[str]:
    for index, (one, view) in enumerate(living):
        for two, other in living[index + 1 :]:
            end = min(view.high_watermark, other.high_watermark)
            start = max(view.log_start, other.log_start)
            mine = view.log[start - view.log_start : max(end - view.log_start, 0)]
            if mine != other.log[start - other.log_start : max(end - other.log_start, 0)]:
                yield f"P-3: brokers {one} and {two} hold different records below both high watermarks"


def _agrees(view: BrokerView, committed: tuple[Record, ...], end: int) -> bool:
    return view.log[: max(0, end - view.log_start)] == committed[view.log_start : end]


def _holds(view: BrokerView, committed: tuple[Record, ...]) -> bool:
    return view.log_end >= len(committed) and _agrees(view, committed, len(committed))


def _log(view: BrokerView) -> str:
    return f"log {[f'{value}@{epoch}' for epoch, value in view.log]}, high watermark {view.high_watermark}"


def check_step(before: BrokerView, after: BrokerView, outcome: NodeOutcome, event: NodeEvent) -> NodeOutcome:
    """The outcome with the facts that the properties of the whole cluster need, and a fault if the step shows one."""
    if not after.alive or not before.alive:
        return outcome._replace(fault=_fault_at_rest(after))
    appended = after.log[-1][0] if after.leads and after.log_end > before.log_end else -1
    removed: tuple[tuple[int, Record], ...] = ()
    if after.role is not None and not isinstance(event, Dies | Starts):
        kept = dict(enumerate(after.log, after.log_start))
        removed = tuple(
            (offset, record)
            for offset, record in enumerate(before.log, before.log_start)
            if offset >= after.log_start and kept.get(offset) != record
        )
    return outcome._replace(appended=appended, removed=removed, fault=_fault(before, after) or _fault_at_rest(after))


def _fault(before: BrokerView, after: BrokerView) -> str | None:
    if before.role is None or after.role is None:
        return None
    if after.leader_epoch < before.leader_epoch:
        return f"P-19: the leader epoch of a replica went back from {before.leader_epoch} to {after.leader_epoch}"
    if after.partition_epoch < before.partition_epoch:
        return (
            f"P-19: the partition epoch of a replica went back from {before.partition_epoch} to {after.partition_epoch}"
        )
    same_leadership = before.leads and after.leads and before.leader_epoch == after.leader_epoch
    if same_leadership and after.high_watermark < before.high_watermark:
        return f"P-9: a leader's high watermark went back from {before.high_watermark} to {after.high_watermark}"
    return None


def _fault_at_rest(view: BrokerView) -> str | None:
    if not view.log_start <= view.high_watermark <= view.log_end:
        return (
            f"P-10: high watermark {view.high_watermark} outside of the log, "
            f"which goes from {view.log_start} to {view.log_end}"
        )
    if not view.leads:
        return None
    expected = view.isr if view.proposed_isr is None else view.isr | view.proposed_isr
    if view.maximal_isr != expected:
        return (
            f"P-22: the maximal ISR is {sorted(view.maximal_isr)}, expected {sorted(expected)}: "
            f"ISR {sorted(view.isr)}, proposed {sorted(view.proposed_isr or ())}"
        )
    return None
