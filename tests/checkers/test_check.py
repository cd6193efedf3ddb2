"""What a check does with run directories: broken files, missing tables, several runs, what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.check import RunNotFoundError, check
from checkers.runs import facts_of
from checkers.tables import REQUIRED_TABLES, survey
from checkers.verdict import AnomalyCount, RunResult
from history.reader import read_table
from history.schema import ANOMALIES, TABLES
from tests.checkers.histories import MS, History

BROKEN = ("torn", "truncated", "mistyped", "short", "bare")
ODD_NAME = "braces{a,b}[1] *"
UNDECIDED = (("main", "harness"), ("recovery", "harness"), ("main", "node"))
DECIDED = (("tear-down", "harness"), ("main", "cluster"))
"""Trouble of a run, by phase and source, that keeps it from being valid, and that does not."""


def healthy(name: str, records: int = 120) -> History:
    history = History(name)
    history.written(range(100, 100 + records))
    history.poll(0, list(range(100, 100 + records)), (5_000, 5_010), assigned=True)
    history.final(list(range(100, 100 + records)))
    return history


def lossy(name: str) -> History:
    history = History(name)
    history.written([100, 101])
    history.fault("kill", [2], (25, 500))
    history.log(1, [100, 201])
    history.log(3, [100, 201])
    history.send(201, (600, None), status="info", process=2)
    history.final([100, 201])
    return history


def troubled(name: str, phase: str, source: str, build: Callable[[str], History]) -> History:
    history = build(name)
    history.row("troubles", at_ns=600 * MS, phase=phase, source=source, text="expected a disk, found none\n  of it")
    return history


def waiting(name: str) -> History:
    history = History(name)
    history.send(100, (10, 20), offset=0)
    history.fault("kill", [1], (100, 400))
    history.send(101, (150, 700), offset=1)
    history.final([100, 101])
    return history


def losing_everything(name: str) -> History:
    history = History(name)
    history.written(range(100, 1_300))
    history.final([])
    return history


def damage_pages(part: Path) -> None:
    """Keep the footer, so that the file looks whole until somebody reads it."""
    content = bytearray(part.read_bytes())
    middle = len(content) // 4
    content[4:middle] = bytes(middle - 4)
    part.write_bytes(bytes(content))


def broken_runs(directory: Path) -> list[Path]:
    """Runs without one table each, and runs with broken files."""
    runs = {name: healthy(name).write(directory) for name in (*TABLES, *BROKEN)}
    for table in TABLES:
        for part in (runs[table] / "history" / table).glob("*"):
            part.unlink()
    (runs["torn"] / "history" / "reads" / "part-u-000001.parquet").write_bytes(b"PAR1 and then the power went")
    sends = runs["truncated"] / "history" / "sends" / "part-t-000000.parquet"
    sends.write_bytes(sends.read_bytes()[:-20])
    wrong = pa.table({"run_id": ["mistyped"], "op": ["one"]})
    pq.write_table(wrong, runs["mistyped"] / "history" / "operations" / "part-u-000001.parquet")
    damage_pages(runs["short"] / "history" / "reads" / "part-t-000000.parquet")
    for part in (runs["bare"] / "history").glob("*/*"):
        part.unlink()
    return list(runs.values())


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, RunResult]:
    """All runs of this module, checked together, by their directory in that of all."""
    directory = tmp_path_factory.mktemp("runs")
    good, bad = healthy("good").write(directory), lossy("bad").write(directory)
    (bad / "anomalies").mkdir()
    pq.write_table(ANOMALIES.empty_table(), bad / "anomalies" / "part-000007.parquet")
    others = [build(build.__name__).write(directory) for build in (waiting, losing_everything)]
    for phase, source in (*UNDECIDED, *DECIDED):
        others.append(troubled(f"valid-{phase}-{source}", phase, source, healthy).write(directory))
        others.append(troubled(f"invalid-{phase}-{source}", phase, source, lossy).write(directory))
    first, second = healthy("run", records=3).write(directory / "first"), lossy("run").write(directory / "second")
    odd = healthy(ODD_NAME).write(directory)
    runs = [good, bad, *others, odd, *broken_runs(directory), first, second, first]
    checked = check(runs, spark)
    assert [result.directory for result in checked] == runs
    return {str(result.directory.relative_to(directory)): result for result in checked}


@pytest.mark.spark
@pytest.mark.parametrize("table", TABLES)
def test_a_missing_table_leaves_the_verdict_unknown_unless_runs_need_not_have_it(
    table: str, results: Mapping[str, RunResult]
) -> None:
    optional = set(TABLES) - set(REQUIRED_TABLES) - {"reads"}  # without them, polls have lost their records
    assert results[table].verdict == ("valid" if table in optional else "unknown"), results[table].reasons


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("torn", "part-u-000001.parquet"),
        ("truncated", "part-t-000000.parquet"),
        ("mistyped", "column"),
        ("short", "unreadable"),
        ("bare", "the table runs is missing"),
    ],
)
def test_a_broken_file_is_named_and_proves_nothing(name: str, reason: str, results: Mapping[str, RunResult]) -> None:
    result = results[name]
    assert result.verdict == "unknown"
    assert not any(count.violations for count in result.anomalies.values())
    assert any(reason in stated for stated in result.reasons), result.reasons


@pytest.mark.spark
@pytest.mark.parametrize(("phase", "source"), UNDECIDED)
def test_trouble_before_all_was_recorded_keeps_a_run_from_being_valid(
    phase: str, source: str, results: Mapping[str, RunResult]
) -> None:
    result = results[f"valid-{phase}-{source}"]
    assert result.verdict == "unknown"
    assert result.reasons == (f"in the phase {phase}: expected a disk, found none",)


@pytest.mark.spark
@pytest.mark.parametrize(("phase", "source"), DECIDED)
def test_trouble_that_takes_nothing_from_the_history_does_not(
    phase: str, source: str, results: Mapping[str, RunResult]
) -> None:
    assert results[f"valid-{phase}-{source}"].verdict == "valid"


@pytest.mark.spark
@pytest.mark.parametrize(("phase", "source"), [*UNDECIDED, *DECIDED])
def test_no_trouble_hides_a_loss(phase: str, source: str, results: Mapping[str, RunResult]) -> None:
    assert results[f"invalid-{phase}-{source}"].verdict == "invalid"


def test_what_the_harness_broke_is_not_the_clusters_failure_to_recover(tmp_path: Path) -> None:
    healed = {
        source: facts_of(survey(troubled(source, "main", source, lossy).write(tmp_path))).healed_ns
        for source in ("harness", "node", "cluster")
    }
    assert healed == {"harness": None, "node": 500 * MS, "cluster": 500 * MS}


@pytest.mark.spark
def test_any_directory_name_will_do(results: Mapping[str, RunResult]) -> None:
    assert results[ODD_NAME].verdict == "valid"


@pytest.mark.spark
def test_a_valid_run_is_counted(results: Mapping[str, RunResult]) -> None:
    good = results["good"]
    assert (good.verdict, good.reasons, good.anomalies) == ("valid", (), {})
    assert good.counts["sends_ok"] == 120
    assert good.counts["records_read"] == 240
    assert good.metrics["send_latency_p50_ms"] == 5.0
    assert read_table(good.directory, "anomalies").num_rows == 0


@pytest.mark.spark
def test_results_and_anomalies_are_written_and_explain_themselves(results: Mapping[str, RunResult]) -> None:
    bad = results["bad"]
    assert bad.verdict == "invalid"
    assert bad.anomalies["lost-acked-write"] == AnomalyCount(violations=1, within_contract=0)
    written = json.loads((bad.directory / "results.json").read_text())
    assert written["verdict"] == "invalid"
    assert written["anomalies"]["lost-acked-write"] == {"violations": 1, "within_contract": 0}
    assert [part.name for part in (bad.directory / "anomalies").iterdir()] == ["part-000000.parquet"]
    rows = read_table(bad.directory, "anomalies").to_pylist()
    (row,) = (row for row in rows if row["anomaly"] == "lost-acked-write")
    assert row["explanation"] == (
        "Value 101 was acknowledged at offset 1 of log-0 by broker 1 at 0.025 s (acks=all), yet the final reads of the "
        "partition from its start to its agreed end do not show it. At offset 1 the logs hold after the run: brokers "
        "1, "
        "3 value 201. Active then: #1 kill of broker 2 from 0.025 s until 0.500 s."
    )
    evidence = json.loads(row["evidence"])
    assert evidence["operation"]["completed_ns"] == 25 * MS
    assert evidence["replicas"] == [{"broker": 1, "value": 201}, {"broker": 3, "value": 201}]
    assert [fault["fault"] for fault in evidence["faults"]] == [1]


@pytest.mark.spark
def test_evidence_is_bounded_and_counts_are_exact(results: Mapping[str, RunResult]) -> None:
    result = results["losing_everything"]
    assert result.anomalies["lost-acked-write"].violations == 1_200
    rows = read_table(result.directory, "anomalies").to_pylist()
    assert [row["offset"] for row in rows] == list(range(1_000))


@pytest.mark.spark
def test_metrics_tell_how_long_each_fault_kept_writers_waiting(results: Mapping[str, RunResult]) -> None:
    (fault,) = results["waiting"].metrics["faults"]
    assert (fault["without_acknowledged_writes_ms"], fault["to_recover_ms"]) == (680.0, 300.0)


@pytest.mark.spark
def test_copies_of_one_run_do_not_mix(results: Mapping[str, RunResult]) -> None:
    first, second = results["first/run"], results["second/run"]
    assert (first.verdict, second.verdict) == ("unknown", "invalid")
    assert "only 3 records were acknowledged" in (first.directory / "results.json").read_text()


def test_a_directory_without_a_history_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="holds no run"):
        check([tmp_path])


def test_nothing_to_check_needs_no_spark() -> None:
    assert check([]) == []
