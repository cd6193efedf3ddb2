"""A long run is divided, and judged as if it were in one place."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers import check as checking
from checkers.input.run_facts import facts_of
from checkers.input.tables import survey
from checkers.screening import stretches
from checkers.screening.in_driver import screen_in_driver
from checkers.screening.long import blocks, chunks
from checkers.screening.long import recognise as dividing
from checkers.screening.long.blocks import Layout, narrowed, widened
from checkers.screening.long.groups import Order, in_disorder
from checkers.screening.long.recognise import SuspectRun, work_on
from checkers.screening.ordinary import recognise
from checkers.screening.ordinary.counting import OrdinaryRun
from checkers.screening.stretches import ScreeningNote
from tests.checkers.anomalies.cases import CASES
from tests.checkers.anomalies.mutations import MUTATIONS, Log, acknowledged
from tests.checkers.histories import History
from tests.checkers.screening.disturbed import beside, disturbed, ordinary
from tests.checkers.screening.local_engine import scatter, screened, small_pieces
from tests.checkers.screening.test_ordinary import correct, of_another_run, results_in, unreadable

HISTORIES = 80
COMPARED = 6
TWO_OF_ONE_ORDINAL = 283_300_464_515
"""A history in which a poll has two records at one place: the lower offset comes first, for everyone."""
ORDINARY_IN_THREE = 6
"""A seed of three disturbed partitions that are ordinary together, as one of forty is."""
SUSPECTS = 40
MUTABLE_MIN = 5


@pytest.fixture(autouse=True)
def finely() -> Iterator[None]:
    """Divide short histories as finely as long ones."""
    with small_pieces():
        yield


def divided(history: History, directory: Path) -> OrdinaryRun | None:
    run = history.write(directory)
    scatter(run)
    return judged(run)


def judged(run: Path) -> OrdinaryRun | None:
    found = screened(run)
    return found if isinstance(found, OrdinaryRun) else None


def suspicion_by_place(notes: Iterable[tuple[Any, ScreeningNote]]) -> tuple[set[Any], set[tuple[Any, int]]]:
    """Return the suspect partitions, and the suspect values of others, each with its partition."""
    places: dict[Any, int] = {}
    numbered = [note._replace(partition_key=places.setdefault(place, len(places))) for place, note in notes]
    found = stretches.suspicion_of(pa.Table.from_batches([stretches.batch_of(numbered)]))
    by_number = {number: place for place, number in places.items()}
    return {by_number[key] for key in found.partition_keys}, {(by_number[key], value) for key, value in found.values}


def of_quantiles(name: tuple[Any, ...]) -> bool:
    return name[0] == "latency_ns" and name[1] != "1.0"


@pytest.mark.slow
def test_a_divided_run_is_ordinary_where_it_would_be_as_a_whole_and_tells_the_same(tmp_path: Path) -> None:
    first = random.randrange(1 << 40)
    histories = [disturbed(seed) for seed in range(first, first + HISTORIES)]
    for number, history in enumerate(histories):
        if number % 2:
            history.fault("kill", [1], (20 + number, 60 + number))
    whole = ordinary(histories)
    assert any(run.resolved for run in whole.values())
    for history in histories:
        found, expected = divided(history, tmp_path), whole.get(history.name)
        assert (found is None) == (expected is None), history.name
        if found is not None and expected is not None:
            exact = {name: number for name, number in expected.numbers.items() if not of_quantiles(name)}
            assert {name: number for name, number in found.numbers.items() if not of_quantiles(name)} == exact
            for name in filter(of_quantiles, expected.numbers):
                assert 0 <= expected.numbers[name] - found.numbers[name] <= expected.numbers[name] / 4096
            in_order = [sorted(run.resolved, key=lambda send: send["value"]) for run in (found, expected)]
            assert in_order[0] == in_order[1]


@pytest.mark.slow
def test_partitions_in_several_shares_are_judged_as_if_they_were_together(tmp_path: Path) -> None:
    """Where a reader is stuck in one of them, what it polled in the others counts too."""
    first = random.randrange(1 << 40)
    ordinary_ones = 0
    for seed in (ORDINARY_IN_THREE, *range(first, first + HISTORIES)):
        history = beside(*(disturbed(seed + (number << 41)) for number in range(3)))
        history.fault("kill", [1], (20, 60))
        found, expected = divided(history, tmp_path), ordinary([history]).get(history.name)
        assert (found is None) == (expected is None), seed
        if found is not None and expected is not None:
            ordinary_ones += 1
            numbers = [
                {name: run.numbers[name] for name in run.numbers if name[0] != "latency_ns"}
                for run in (found, expected)
            ]
            assert numbers[0] == numbers[1]
    assert 0 < ordinary_ones < HISTORIES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.history.name)
def test_no_planted_anomaly_is_in_an_ordinary_divided_run(case: Any, tmp_path: Path) -> None:
    run = case.history.write(tmp_path)
    facts = facts_of(survey(run))
    told_anyway = facts.losses or facts.malformed or facts.deleted_topics or case.history.tables["commands"]
    if case.expected and not told_anyway:
        scatter(run)
        assert judged(run) is None


@pytest.mark.parametrize(
    "history", [*(case.history for case in CASES), *range(40)], ids=lambda each: getattr(each, "name", str(each))
)
def test_whatever_a_whole_history_makes_suspect_is_suspect_in_a_divided_one(history: Any, tmp_path: Path) -> None:
    history = disturbed(random.randrange(1 << 40)) if isinstance(history, int) else history
    run = history.write(tmp_path)
    whole = screen_in_driver([survey(run)])
    scatter(run)
    found = screened(run)
    if whole is None or whole.twice or whole.malformed or found is None:
        return
    places = whole.partitions.select(["topic", "partition"]).to_pylist()
    notes = [(tuple(places[note.partition_key].values()), note) for note in whole.notes]
    partitions, values = suspicion_by_place(notes)
    if isinstance(found, SuspectRun):
        suspect_partitions, suspect_values = suspicion_by_place(found.notes)
        assert partitions <= suspect_partitions
        assert {each for each in values if each[0] not in suspect_partitions} <= suspect_values
    else:
        assert not partitions


def test_the_rows_of_each_replica_are_counted_over_all_chunks(tmp_path: Path) -> None:
    history = correct("replicas")
    log = Counter(row["broker"] for row in history.tables["logs"])
    history.tables["reads"] = history.tables["reads"][:-1]
    run = history.write(tmp_path)
    scatter(run)
    found = screened(run)
    assert isinstance(found, SuspectRun)
    assert Counter({each.broker: each.rows for each in found.replicas}) == log


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_no_mutated_log_is_ordinary_when_it_is_divided(mutation: Any, tmp_path: Path) -> None:
    log = next(log for seed in range(100) if len(acknowledged(log := Log("log", seed))) >= MUTABLE_MIN)
    assert divided(log.history, tmp_path / "correct") is not None
    mutation(log)
    assert divided(log.history, tmp_path / "mutated") is None


@pytest.mark.parametrize("spoil", [unreadable, of_another_run])
def test_no_divided_run_is_ordinary_whose_files_do_not_hold_it_alone_and_whole(spoil: Any, tmp_path: Path) -> None:
    run = correct("spoilt").write(tmp_path)
    assert judged(run) is not None
    spoil(run)
    assert judged(run) is None


def test_a_value_that_was_sent_in_two_chunks_is_seen(tmp_path: Path) -> None:
    history = correct("twice")
    again = {**history.tables["sends"][0], "op": history.tables["sends"][-1]["op"], "ordinal": 1}
    history.tables["sends"].append(again)
    assert divided(history, tmp_path) is None


def test_files_that_do_not_tell_which_operations_they_hold_are_not_divided(tmp_path: Path) -> None:
    run = correct("untold").write(tmp_path)
    assert work_on(survey(run), facts_of(survey(run)), 1) is not None
    (part,) = (run / "history" / "sends").glob("*.parquet")
    pq.write_table(pq.read_table(part), part, write_statistics=False)
    assert work_on(survey(run), facts_of(survey(run)), 1) is None


def test_larger_chunks_are_taken_where_row_groups_are_large(tmp_path: Path) -> None:
    run = correct("large").write(tmp_path)
    found = survey(run)
    rows = sum(found.large[table].rows for table in chunks.CLIENT_TABLES)
    with mock.patch.object(chunks, "TIMES_READ_MAX", 1), mock.patch.object(chunks, "ROWS_OF_A_CHUNK", 1 + rows // 4):
        divided_into = chunks.client_chunks(found)
    assert divided_into is not None
    assert len(divided_into) == 1


def test_a_run_with_more_answers_than_one_task_may_hold_is_not_divided(tmp_path: Path) -> None:
    run = survey(correct("many").write(tmp_path))
    needed = 2 * run.large["polls"].rows * dividing.BYTES_OF_A_POLL
    for memory, divides in ((needed, True), (needed - 2, False)):
        with mock.patch.object(dividing, "memory_bytes", return_value=memory):
            assert (work_on(run, facts_of(run), 1) is not None) == divides


def test_files_whose_operations_are_scattered_over_all_of_them_are_not_divided(tmp_path: Path) -> None:
    run = correct("scattered").write(tmp_path)
    with mock.patch.object(chunks, "TIMES_READ_MAX", 1), mock.patch.object(chunks, "ROWS_OF_A_CHUNK", 2):
        assert work_on(survey(run), facts_of(survey(run)), 1) is None


@pytest.mark.parametrize("ends", [[100] * 4, [97, 1, 1, 1], [1, 1, 97, 1], [400], [0, 100], [1] * 400])
def test_groups_are_spread_evenly_however_unequal_partitions_are(ends: list[int]) -> None:
    places = {("log", number): end << blocks.GROUP_BITS for number, end in enumerate(ends)}
    layout = Layout.of(places, 8, 1)
    keys = [(place, group) for place, end in places.items() for group in range(end >> blocks.GROUP_BITS)]
    of_tasks = Counter(map(layout.task_of, keys))
    assert max(of_tasks.values()) - min(of_tasks[task] for task in range(8)) <= 1
    assert layout.task_of((("unknown", 3), 7)) in range(8)


def test_answers_of_two_groups_contradict_each_other_only_where_the_upper_one_was_first() -> None:
    early, late = (
        Order(disorder=False, answered_ns=10, invoked_ns=5),
        Order(disorder=False, answered_ns=20, invoked_ns=15),
    )
    assert not in_disorder({0: early, 1: late})
    assert in_disorder({0: late, 1: early})
    assert in_disorder({0: Order(disorder=True, answered_ns=10, invoked_ns=5)})


@pytest.mark.parametrize(
    "numbers", [[], [7], [7, 7], [-3, 250], [0, 70_000], [-(1 << 63), (1 << 63) - 1], [0, 1 << 40]]
)
def test_columns_are_narrowed_without_loss(numbers: list[int]) -> None:
    column = np.array(numbers, np.int64)
    assert widened([narrowed(column), narrowed(column[:1])]).tolist() == [*numbers, *numbers[:1]]


def exact_results_in(run: Path) -> dict[str, Any]:
    """What a check has written, without quantiles of latency, which are approximate."""
    results = dict(results_in(run))
    metrics = results["results"]["metrics"]
    results["results"]["metrics"] = {
        name: number for name, number in metrics.items() if not name.startswith("send_latency_p")
    }
    return results


@pytest.mark.slow
@pytest.mark.spark
def test_long_runs_are_divided_on_spark_and_told_as_frames_tell_them(spark: SparkSession, tmp_path: Path) -> None:
    first = random.randrange(1 << 40)
    runs = [disturbed(seed).write(tmp_path) for seed in (*range(first, first + COMPARED), TWO_OF_ONE_ORDINAL)]
    runs.append(correct("ordinary").write(tmp_path))
    for run in runs:
        scatter(run)
    with (
        mock.patch.object(recognise, "ROWS_OF_A_RUN_MAX", 1),
        mock.patch.object(recognise, "ROWS_OF_A_LONE_RUN_MAX", 1),
    ):
        surveyed = [survey(run) for run in runs]
        assert recognise.recognised_runs(spark, surveyed, [facts_of(run) for run in surveyed])
        checking.check(runs, spark, acknowledged_min=0)
    divided_results = {run: exact_results_in(run) for run in runs}
    with mock.patch.object(checking, "recognised_runs", return_value={}):
        checking.check(runs, spark, acknowledged_min=0)
    assert divided_results == {run: exact_results_in(run) for run in runs}


@pytest.mark.slow
@pytest.mark.spark
def test_suspect_runs_get_the_results_that_frames_give(spark: SparkSession, tmp_path: Path) -> None:
    first = random.randrange(1 << 40)
    histories = [disturbed(seed) for seed in range(first, first + SUSPECTS)]
    for number, mutation in enumerate(MUTATIONS):
        log = Log(f"mutated-{number}", first + number)
        if len(acknowledged(log)) >= MUTABLE_MIN:
            mutation(log)
            histories.append(log.history)
    suspects = {}
    for history in histories:
        run = history.write(tmp_path)
        scatter(run)
        found = screened(run)
        if isinstance(found, SuspectRun):
            suspects[run] = found
    well_answered = {run for run, found in suspects.items() if found.answers_ordinary and found.in_order}
    assert 0 < len(well_answered) < len(suspects)
    for runs in (sorted(well_answered), sorted(suspects.keys() - well_answered)):
        results = []
        for screened_before in ({run.name: suspects[run] for run in runs}, {}):
            with (
                mock.patch.object(checking, "recognised_runs", return_value=screened_before),
                mock.patch.object(checking, "screen_in_driver", return_value=None),  # Spark screens what is left
            ):
                checking.check(runs, spark, acknowledged_min=0)
            results.append({run: exact_results_in(run) for run in runs})
        assert results[0] == results[1]
        assert any(of_run["anomalies"] for of_run in results[0].values())
