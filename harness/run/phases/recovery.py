"""The recovery phase: waits until the healed cluster serves again under load, then stops the writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.run.health import ReportedEnd, partition_ends, unhealthy_reason
from harness.run.phases.context import RunContext
from harness.run.phases.topics import TopicWatch
from harness.run.workers import acked

RECOVERED_S = 60.0
ANSWER_S = 10.0
DRAIN_S = 30.0
AGREE_S = 15.0


def recover(context: RunContext) -> Sequence[ReportedEnd]:
    """Wait for the cluster within bounds, stop the writes, and determine the end of every partition.

    A condition that is not met in time is recorded, and judged by the checkers. Nodes that ended by themselves are not
    waited for.
    """
    with context.recording_errors():
        _await_recovery(context)
    with context.recording_errors():
        _stop_writes(context)
    found: Sequence[ReportedEnd] = ()
    with context.recording_errors():
        found = _agree(context)
    for end in found:
        context.history.add("ends", _row(end))
    return found


def _await_recovery(context: RunContext) -> None:
    cluster = context.environment.cluster
    started_ns = context.clock.now()
    topic = TopicWatch(context)

    def recovered() -> bool:
        context.record_lost_workers()
        context.record_lost_nodes()
        topic.check()
        context.progress.status(acked(context.workers), ())
        return unhealthy_reason(cluster, context.lost_nodes) is None

    if not context.until(recovered, RECOVERED_S):
        reason = unhealthy_reason(cluster, context.lost_nodes)
        context.trouble(f"the cluster had not recovered after {context.scaled(RECOVERED_S):g} s: {reason}")
        return
    context.progress.log(f"the cluster recovered after {(context.clock.now() - started_ns) / 1e9:.1f} s")
    before = acked(context.workers)
    if not context.until(lambda: acked(context.workers) > before, ANSWER_S):
        context.trouble(f"the recovered cluster acknowledged no write within {context.scaled(ANSWER_S):g} s")


def _stop_writes(context: RunContext) -> None:
    context.command_workers("drain")
    if not context.until(context.all_reported("drained"), DRAIN_S):
        context.trouble(f"sends were still in flight after {context.scaled(DRAIN_S):g} s")


def _agree(context: RunContext) -> Sequence[ReportedEnd]:
    found: Sequence[ReportedEnd] = ()

    def agreed() -> bool:
        nonlocal found
        views = context.environment.cluster.partitions()
        found = partition_ends(context.system, context.environment.plans, views, context.lost_nodes)
        return bool(found) and all(end.agreed for end in found)

    if not context.until(agreed, AGREE_S):
        apart = [f"{end.topic}-{end.partition}" for end in found if not end.agreed]
        context.trouble(f"the replicas do not agree on the end of {', '.join(apart) or 'any partition'}")
    return found


def _row(end: ReportedEnd) -> Mapping[str, object]:
    return {
        "topic": end.topic,
        "partition": end.partition,
        "end_offset": end.end_offset,
        "agreed": end.agreed,
    }
