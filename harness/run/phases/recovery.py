"""Recovery: the healed cluster must become whole again, with the workers still at work, and then come to rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.run.health import End, ends, lacking
from harness.run.phases.stage import Stage
from harness.run.phases.topics import TopicWatch
from harness.run.workers import acked

WHOLE_S = 60.0
ANSWER_S = 10.0
DRAIN_S = 30.0
AGREE_S = 15.0


def recover(stage: Stage) -> Sequence[End]:
    """Wait for the cluster within bounds, stop the writes, and see where every partition ends.

    What does not come true in time is noted, and left to the checkers to judge. Nodes that ended by themselves are not
    waited for.
    """
    with stage.going_on():
        _become_whole(stage)
    with stage.going_on():
        _stop_writes(stage)
    found: Sequence[End] = ()
    with stage.going_on():
        found = _agree(stage)
    for end in found:
        stage.history.add("ends", _row(end))
    return found


def _become_whole(stage: Stage) -> None:
    cluster = stage.environment.cluster
    started_ns = stage.clock.now()
    topic = TopicWatch(stage)

    def whole() -> bool:
        stage.note_lost_workers()
        stage.note_lost_nodes()
        topic.look()
        stage.progress.status(acked(stage.workers), ())
        return lacking(cluster, stage.lost_nodes) is None

    if not stage.until(whole, WHOLE_S):
        lack = lacking(cluster, stage.lost_nodes)
        stage.trouble(f"the cluster was not whole again within {stage.paced(WHOLE_S):g} s: {lack}")
        return
    stage.progress.note(f"the cluster was whole again after {(stage.clock.now() - started_ns) / 1e9:.1f} s")
    before = acked(stage.workers)
    if not stage.until(lambda: acked(stage.workers) > before, ANSWER_S):
        stage.trouble(f"the whole cluster acknowledged nothing within {stage.paced(ANSWER_S):g} s")


def _stop_writes(stage: Stage) -> None:
    stage.tell_workers("drain")
    if not stage.until(stage.all_report("drained"), DRAIN_S):
        stage.trouble(f"sends were still open after {stage.paced(DRAIN_S):g} s")


def _agree(stage: Stage) -> Sequence[End]:
    found: Sequence[End] = ()

    def agreed() -> bool:
        nonlocal found
        views = stage.environment.cluster.partitions()
        found = ends(stage.system, stage.environment.plans, views, stage.lost_nodes)
        return bool(found) and all(end.agreed for end in found)

    if not stage.until(agreed, AGREE_S):
        apart = [f"{end.topic}-{end.partition}" for end in found if not end.agreed]
        stage.trouble(f"the replicas do not agree on the end of {', '.join(apart) or 'any partition'}")
    return found


def _row(end: End) -> Mapping[str, object]:
    return {
        "topic": end.topic,
        "partition": end.partition,
        "end_offset": end.end_offset,
        "agreed": end.agreed,
    }
