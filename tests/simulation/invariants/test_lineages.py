"""P-3 by lineage: a batch has the same past in every log that has it, as far as the log still has that past."""

from __future__ import annotations

from simulation.invariants.ghost import Batch, Lineage
from simulation.invariants.replicas import extend
from simulation.runs.sweep import simulate


def batch(base: int, last: int, epoch: int, crc: int) -> Batch:
    """A batch of a producer without an id."""
    return Batch(base, last, epoch, crc, -1, -1, -1, control=False)


FIRST, OTHER, NEXT = batch(0, 1, 0, 7), batch(0, 1, 1, 8), batch(2, 2, 4, 9)


def test_a_batch_after_another_past_breaks_p_3() -> None:
    lineage = Lineage()
    assert not extend([], [FIRST, NEXT], lineage)
    assert extend([OTHER, OTHER], [NEXT], lineage) == f"{NEXT} after {OTHER}, and another replica after {FIRST}"
    assert extend([OTHER, OTHER], [NEXT], lineage, start=1), "the log begins within that past"


def test_another_batch_of_an_epoch_breaks_p_3_wherever_the_log_begins() -> None:
    lineage = Lineage()
    assert not extend([], [FIRST, NEXT], lineage)
    assert extend([None, None], [batch(2, 2, 4, 10)], lineage, start=2)


def test_a_past_that_is_deleted_is_not_compared() -> None:
    lineage = Lineage()
    assert not extend([], [FIRST, NEXT], lineage)
    assert not extend([OTHER, OTHER], [NEXT], lineage, start=2)


def test_a_follower_that_has_deleted_what_its_next_leader_never_had_appends_at_its_log_start() -> None:
    """In this seed an unclean election elects a replica with another batch before that offset."""
    assert not simulate(31004436, {"search": "mixed"}, observed=True).findings
