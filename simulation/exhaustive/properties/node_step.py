"""Checks one step of one broker by itself (P-9, P-10, P-19, P-22)."""

from __future__ import annotations

from simulation.exhaustive.model.events import Dies, NodeEvent, NodeOutcome, Record, Starts
from simulation.exhaustive.model.views import BrokerView


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
