"""What the observer keeps of a partition: the times of its records, and what they say where the topic is compacted."""

from __future__ import annotations

import pytest

from broker.core.metadata.image import Image, TopicImage
from broker.core.metadata.records import PartitionState
from simulation.invariants.committed import check_candidates
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror
from simulation.invariants.knowledge import Knowledge
from tests.simulation.invariants.planting import broken_by


def batch(offset: int, epoch: int = 0) -> Batch:
    return Batch(offset, offset, epoch, 0, -1, -1, -1, control=False)


def test_the_times_of_a_segment_are_those_of_deleted_records_too_and_unknown_where_nobody_knows_them() -> None:
    ghost = Ghost("log", 0, times={(0, 0): 100, (0, 1): 900, (1, 2): 300, (0, 2): 50})
    ghost.committed += [batch(0), batch(1), batch(2)]
    own = ReplicaMirror(1, entries=[None, None, batch(2, epoch=1), batch(3)], start=2)
    assert ghost.times_between(own, 0, 2) == [100, 900]
    assert ghost.times_between(own, 1, 4) == [900, 300, -1]
    ghost.committed[1] = None
    assert ghost.times_between(own, 0, 2) == [100, -1]


def test_a_topic_that_only_a_controller_knows_yet_is_compacted_all_the_same(knowledge: Knowledge) -> None:
    ahead = Image()
    ahead.topics["offsets"] = TopicImage("offsets", "id", {}, {"cleanup.policy": "compact"})
    assert knowledge.ghost("offsets", "id", 0, ahead).contents == {}
    assert knowledge.ghost("offsets", "id", 1).contents is None


@pytest.mark.parametrize(
    ("start", "since_epoch", "asked", "broken"),
    [(4, 2, 0, "P-2"), (3, 2, 0, "P-2"), (2, 2, 0, None), (4, 0, 0, None), (4, 2, 4, None), (4, 2, 1, "P-2")],
)
def test_a_candidate_must_not_have_deleted_what_was_committed_since_an_unclean_election(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch, start: int, since_epoch: int, asked: int, broken: str | None
) -> None:
    monkeypatch.setattr(Knowledge, "runs_as_registered", lambda _known, _member: True)
    ghost = Ghost("log", 0, elected_end=2, since_epoch=since_epoch, asked_before={1: 1})
    ghost.state = PartitionState(replicas=(1, 2), isr=(1,), leader=1, leader_epoch=2, partition_epoch=3)
    ghost.committed += [batch(offset, epoch=2) for offset in range(5)]
    kept = [None] * start + [batch(offset, epoch=2) for offset in range(start, 5)]
    ghost.mirrors[1] = ReplicaMirror(1, entries=kept, start=start, asked_start=asked)
    assert broken_by(lambda: check_candidates(knowledge, ghost)) == broken
