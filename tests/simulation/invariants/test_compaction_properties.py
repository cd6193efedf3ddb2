"""Simulated compacted topics: what compaction removes has been replaced, and the observer notices if it has not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.broker_node import compaction
from broker.core.broker_node.compaction import COMPACTED
from broker.core.log.compaction import filtering
from broker.core.log.compaction.cleaning import Cleaning, Progress
from broker.core.log.compaction.filtering import StoredRecord
from broker.core.log.log import Log, LogConfig
from broker.core.records import encode_batch, filler, iterate_headers
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import SimulatedCluster
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.observer import property_observers
from simulation.invariants.properties import Violation
from simulation.invariants.replicas import _filler_cut, compacted
from simulation.runs.failures import findings
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.scenario.scenario import settings_of
from tests.simulation.invariants.planting import observe
from tests.support.memory_files import MemoryFiles

SETTINGS: dict[str, object] = {
    "compacted": True,
    "controllers": 1,
    "combined": False,
    "duration_ms": 20_000,
    "operations": 100,
    "polls": 60,
    "acks": -1,
    "unclean_election": False,
    "unclean_recovery": "Balanced",
    "fault_interval_ms": 2_000,
    "faults": ("kill", "page-cache-loss", "isolate", "restart", "moved-leader", "disk-error", "torn-append"),
}


def simulated(seed: int) -> SimulationOutcome:
    return cases.run(Case(seed, SETTINGS), property_observers())


@pytest.mark.parametrize("seed", range(4))
def test_a_compacted_topic_keeps_its_promises_through_faults(seed: int) -> None:
    outcome = simulated(seed)
    assert findings(outcome) == []
    assert outcome.marks.get(COMPACTED.name, 0) > 3


def test_a_compaction_that_removes_too_much_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_obsolete(record, header, limits):
        return record.offset % 2 == 0

    monkeypatch.setattr(filtering, "_is_obsolete", is_obsolete)
    assert simulated(1).failed_property == "P-3"


def later(record: StoredRecord) -> StoredRecord:
    return record._replace(timestamp=record.timestamp + 1)


def shortened(record: StoredRecord) -> StoredRecord:
    """Both halves lack their last byte, which is of the last header, or the number of headers."""
    return record._replace(data=record.data[:-1], rest=record.rest[:-1])


def of_another_key(record: StoredRecord) -> StoredRecord:
    return record._replace(data=record.data.replace(b"long", b"lang"), rest=record.rest.replace(b"long", b"lang"))


@pytest.mark.parametrize("changed", [later, shortened, of_another_key])
def test_a_compaction_that_changes_a_record_is_noticed(
    changed: Callable[[StoredRecord], StoredRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = filtering.stored_records
    monkeypatch.setattr(filtering, "stored_records", lambda *given: [changed(one) for one in read(*given)])
    settings = {**SETTINGS, "compacted": False, "keyed_topic": True, "faults": ()}
    outcome = cases.run(Case(1, settings), property_observers())
    assert outcome.failed_property == "P-3"
    assert "keyed-0" in str(outcome.failure)


def test_a_compacted_topic_beside_the_main_one_keeps_its_promises() -> None:
    settings = {**SETTINGS, "compacted": False, "keyed_topic": True, "faults": ("kill", "isolate", "moved-leader")}
    outcome = cases.run(Case(2, settings), property_observers())
    assert findings(outcome) == []
    assert outcome.marks.get(COMPACTED.name, 0) > 3


@pytest.mark.parametrize("given_up", [True, False])
def test_a_record_may_be_replaced_by_one_that_an_unclean_election_gave_up(given_up: bool) -> None:
    """A replica that had compacted for its sake lacks both in the end; any other must have the record."""
    ghost = Ghost("log", 0, contents={})
    first, second = (encode_batch([(b"key", value)], offset, 0, 0) for offset, value in enumerate((b"one", b"two")))
    (kept,), (lost,) = ghost.unfold(first), ghost.unfold(second)
    ghost.committed = [kept]
    if given_up:
        ghost.given_up = [(1, lost)]
    (_, header), *_ = iterate_headers(first)
    assert (ghost.unfold(filtering.emptied(header)) == [kept]) is given_up


def test_what_is_emptied_as_one_may_have_been_kept_and_given_up() -> None:
    ghost = Ghost("log", 0, contents={})
    batches = [ghost.unfold(encode_batch([(b"key", b"value")], offset, 0, 0))[0] for offset in range(3)]
    ghost.committed = batches[:1]
    ghost.given_up = [(1, batches[2]), (1, batches[1])]
    assert ghost.unfold(filler(0, 1, 0)) == batches[:2]
    assert ghost.unfold(filler(0, 2, 0)) != batches, "the last record of a key stays"


@pytest.mark.parametrize(("unclean", "high_watermark"), [(True, 2), (True, 1), (False, 2)])
@pytest.mark.parametrize("has_heard", [True, False])
def test_a_leader_that_was_deposed_uncleanly_may_compact_for_the_sake_of_what_it_will_cut_off(
    unclean: bool, high_watermark: int, has_heard: bool
) -> None:
    """Of what it took for committed; there is nothing to excuse where no election was unclean."""
    ghost = Ghost("log", 0, contents={}, since_epoch=1 if unclean else 0)
    first, second = (encode_batch([(b"key", value)], offset, 0, 0) for offset, value in enumerate((b"one", b"two")))
    (kept,), (later,) = ghost.unfold(first), ghost.unfold(second)
    ghost.committed = [kept]
    mirror = ReplicaMirror(1, entries=[kept, later], leader_epoch=1 if has_heard else 0, high_watermark=high_watermark)
    log = Log.open(MemoryFiles(), "log-0", LogConfig(), clean=False)
    (_, header), *_ = iterate_headers(first)
    log.append_as_follower(filtering.emptied(header) + second, 0)
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration())))
    is_excused = unclean and high_watermark == 2
    if is_excused or (unclean and not has_heard):
        compacted(known, ghost, mirror, log)
    else:
        with pytest.raises(Violation, match=r"has compacted 0…0 of epoch 0 .* to something else"):
            compacted(known, ghost, mirror, log)
    assert ghost.given_up == ([(1, later)] if is_excused else [])


@pytest.mark.parametrize(("is_filler", "durable"), [(True, 1), (False, 11)])
def test_only_what_fills_the_place_of_compacted_records_is_not_synced_any_more_after_a_cut(
    is_filler: bool, durable: int
) -> None:
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), clean=True)
    log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0), 0)
    log.mark_flushed(1)
    log.append_as_leader(filler(0, 9, 0) if is_filler else encode_batch([(None, b"value")] * 10, 0, 0, 0), 0)
    mirror = ReplicaMirror(1, durable=11)
    _filler_cut(mirror, log, 11)
    assert mirror.durable == durable


def test_a_compaction_that_never_ends_breaks_v_19(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cleaning, "step", lambda _cleaning: Progress.MORE)
    assert observe(compacted=True).failed_property == "V-19"


def test_a_log_that_is_not_compacted_breaks_v_19(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "check", lambda _broker: None)
    assert observe(compacted=True, duration_ms=40_000).failed_property == "V-19"


def test_a_log_that_is_compacted_in_time_breaks_nothing() -> None:
    assert observe(compacted=True, duration_ms=40_000).failure is None


def test_a_broker_that_is_frozen_again_and_again_need_not_compact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "check", lambda _broker: None)
    faults = [
        SimulatedFault(2_500 + 3_000 * number, "pause", node, 1_000, 0) for number in range(11) for node in (0, 1, 2)
    ]
    assert observe(compacted=True, faults=faults, duration_ms=36_000).virtual_ms > 36_000
