"""What a leader says about leader epochs that is not so breaks P-36; an unclean election that is not reported, P-37."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.controller import losses
from broker.core.log.epoch_cache import EpochCache
from broker.core.messages import (
    EpochEnd,
    EpochEndPartition,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from broker.core.replica.state import Role
from broker.core.rules.requests import FetchRules
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import SimulatedCluster
from simulation.invariants import epoch_ends
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.properties import Violation
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.scenario import settings_of
from tests.simulation.invariants.planting import observe

# --- P-36: a log with the epochs 1 1 3 3 3 ----------------------------------------------------------------------------


def knowledge(*, compacted: bool = False) -> tuple[Knowledge, BrokerMirror]:
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(0), settings_of(Configuration())))
    ghost = known.partitions["id", 0] = Ghost("log", 0, contents={} if compacted else None)
    mirror = ReplicaMirror(1, role=Role.LEADER, leader_epoch=3)
    for base, last, epoch in ((0, 1, 1), (2, 4, 3)):
        mirror.entries += [Batch(base, last, epoch, 0, -1, -1, -1, False)] * (last + 1 - base)
    broker = known.brokers[1]
    broker.mirrors["log", 0] = ghost.mirrors[1] = mirror
    return known, broker


class Held:
    """A replica of the topic with the id "id"."""

    topic_id = "id"


def is_told(asked: int, said: tuple[int, int] | None, *, compacted: bool = False) -> bool:
    known, broker = knowledge(compacted=compacted)
    broker.mirrors["log", 0].replica = Held()  # type: ignore[assignment]
    request = OffsetForLeaderEpochRequest((EpochEndPartition("log", 0, 3, asked),))
    response = OffsetForLeaderEpochResponse((EpochEnd("log", 0, 0, *(said or (-1, -1))),))
    try:
        epoch_ends.answered(known, broker, request, response)
    except Violation:
        return False
    return True


@pytest.mark.parametrize(
    ("asked", "said", "is_so"),
    [
        (1, (1, 2), True),
        (2, (1, 2), True),
        (2, (2, 2), True),  # an epoch without a record
        (3, (3, 5), True),
        (4, None, True),
        (0, (0, 0), True),
        (1, (3, 2), False),
        (1, (1, 1), False),
        (1, (1, 5), False),
        (2, (0, 2), False),
        (3, (3, 4), False),
        (3, (1, 5), False),
        (2, None, False),
    ],
)
def test_the_end_of_an_epoch_is_that_of_the_log(asked: int, said: tuple[int, int] | None, is_so: bool) -> None:
    assert is_told(asked, said) is is_so


def test_a_compacted_log_may_lack_whole_epochs() -> None:
    assert is_told(1, (1, 1), compacted=True)


@pytest.mark.parametrize(
    ("offset", "epoch", "diverging", "is_so"),
    [
        (2, 1, None, True),
        (4, 3, None, True),
        (4, 1, (1, 2), True),
        (4, 1, None, False),
        (2, 1, (1, 2), False),
        (4, 1, (1, 3), False),
    ],
)
def test_a_fetch_diverges_only_from_another_past(
    offset: int, epoch: int, diverging: tuple[int, int] | None, is_so: bool
) -> None:
    known, broker = knowledge()
    broker.mirrors["log", 0].replica = Held()  # type: ignore[assignment]
    request = FetchRequest((FetchPartition("log", 0, offset, 100, 3, epoch),), replica_id=2)
    response = FetchResponse((FetchedPartition("log", 0, 0, diverging_epoch=diverging),))
    if is_so:
        epoch_ends.answered(known, broker, request, response)
    else:
        with pytest.raises(Violation, match=r"P-36: log-0: broker 1, leader of epoch 3, answered"):
            epoch_ends.answered(known, broker, request, response)


ISOLATED = [SimulatedFault(5_000 + 6_000 * number, "isolate", number, 4_000, 0) for number in range(3)]


def test_a_leader_that_says_of_all_logs_that_they_diverge_breaks_p_36(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FetchRules, "diverges", lambda *_asked: True)
    assert observe().failed_property == "P-36"


def test_a_leader_that_names_a_later_epoch_breaks_p_36(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = EpochCache.end_offset

    def end_offset(cache: EpochCache, epoch: int, log_end: int) -> tuple[int, int] | None:
        found = honest(cache, epoch, log_end)
        return found if found is None or epoch == cache.latest else (cache.latest, found[1])

    monkeypatch.setattr(EpochCache, "end_offset", end_offset)
    failed = {observe(seed=seed, faults=ISOLATED, acks=1).failed_property for seed in range(1, 6)}
    assert "P-36" in failed


def test_leaders_that_tell_the_truth_break_nothing() -> None:
    assert {observe(seed=seed, faults=ISOLATED, acks=1).failed_property for seed in range(1, 6)} == {None}


# --- P-37 -------------------------------------------------------------------------------------------------------------

LOSING = {"unclean_recovery": "Aggressive", "lossy_budget": 3, "duration_ms": 30_000, "min_insync_replicas": 1}
FAULTS = [
    SimulatedFault(5_000, "kill", 1, 6_000, 0),
    SimulatedFault(5_000, "kill", 2, 6_000, 0),
    SimulatedFault(10_500, "kill", 0, 15_000, 0),
]


def unclean() -> str | None:
    """The followers return when the only member of the ISR is gone, and one of them is elected."""
    return observe(faults=FAULTS, **LOSING).failed_property


def test_an_unclean_election_that_is_reported_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []
    honest = losses.report

    def report(*arguments: Any) -> None:
        counted.append(arguments)
        honest(*arguments)

    monkeypatch.setattr(losses, "report", report)
    assert unclean() is None
    assert counted


def test_an_unclean_election_that_is_not_counted_breaks_p_37(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "report", lambda *_arguments: None)
    assert unclean() == "P-37"


def test_a_clean_election_that_is_reported_breaks_p_37(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "is_unclean", lambda before, after: after.leader_epoch > before.leader_epoch)
    assert observe(faults=[SimulatedFault(5_000, "kill", 0, 5_000, 0)]).failed_property == "P-37"
