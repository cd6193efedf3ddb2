"""What the observer keeps of a partition: the times of its records, and what they say where the topic is compacted."""

from __future__ import annotations

from broker.core.metadata.image import Image, TopicImage
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror
from simulation.invariants.knowledge import Knowledge


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
