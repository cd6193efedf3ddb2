"""What a check does with run directories: broken files, missing tables, several runs, what it writes."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.check import NoHistoryError, check
from checkers.foreign.check import FileVerdict, Wanted, check_files
from checkers.input.remote import bring
from checkers.input.run_facts import facts_of
from checkers.input.tables import REQUIRED_TABLES, survey
from checkers.verdict.verdict import AnomalyCount, RunResult
from history.reader import read_table
from history.schema import ANOMALIES, TABLES
from incidents import incidents_of
from tests.checkers.histories import BOUND_MS, MS, History
from tests.checkers.input.damaged_files import SEEDS, mutate
from tests.checkers.input.garbage import write_garbage

BROKEN = ("torn", "truncated", "mistyped", "short", "bare")
ODD_NAME = "braces{a,b}[1] *"
FAR = "far"
GARBAGE, FILES = 40, 25
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
    """Keep the footer, so that the file looks whole until it is read."""
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


@dataclass(frozen=True)
class Checked:
    """Runs of ours and files of other tools, all in one Spark job."""

    results: Mapping[str, RunResult]
    """Of the runs, by the name of their directory."""
    garbage: Sequence[Path]
    """Those of the runs whose tables make no sense."""
    verdicts: Mapping[str, FileVerdict]
    """By the name of the directory or file."""
    of_files: Sequence[RunResult]
    """Of those files that Spark has judged."""


@pytest.fixture(scope="module")
def checked(
    start_spark: Callable[[], SparkSession], seed: int | None, tmp_path_factory: pytest.TempPathFactory
) -> Checked:
    spark, chance = start_spark(), random.Random(seed)
    directory = tmp_path_factory.mktemp("runs")
    good, bad = healthy("good").write(directory), lossy("bad").write(directory)
    (bad / "anomalies").mkdir()
    pq.write_table(ANOMALIES.empty_table(), bad / "anomalies" / "part-000007.parquet")
    others = [build(build.__name__).write(directory) for build in (waiting, losing_everything)]
    others.append(healthy("few", records=3).write(directory))
    for phase, source in (*UNDECIDED, *DECIDED):
        others.append(troubled(f"valid-{phase}-{source}", phase, source, healthy).write(directory))
        others.append(troubled(f"invalid-{phase}-{source}", phase, source, lossy).write(directory))
    lost = lossy("far").write(tmp_path_factory.mktemp("on[e]*"))  # which would be a pattern to Spark
    far = bring(spark, f"file://{lost}", directory).rename(directory / FAR)
    assert not list(far.glob("history/operations/*.parquet"))
    runs = [good, bad, *others, healthy(ODD_NAME).write(directory), *broken_runs(directory), far]
    garbage = [directory / f"garbage-{number}" for number in chance.sample(range(2**32), GARBAGE)]
    for run in garbage:
        write_garbage(run, int(run.name.removeprefix("garbage-")))
    files = [directory / f"{number}.history" for number in range(FILES)]
    for file, content in zip(files, itertools.cycle(SEEDS), strict=False):
        file.write_bytes(mutate(content, chance.choice, chance.randint))
    results: list[RunResult] = []

    def check_runs(directories: Sequence[Path]) -> list[RunResult]:
        results.extend(check(directories, spark))
        return results

    verdicts = check_files([*runs, *garbage, *files], Wanted(), check_runs)
    assert [verdict.file for verdict in verdicts] == [str(path) for path in (*runs, *garbage, *files)]
    ours = len(runs) + len(garbage)
    assert [result.directory for result in results[:ours]] == [*runs, *garbage]
    return Checked(
        {result.directory.name: result for result in results[:ours]},
        garbage,
        {Path(verdict.file).name: verdict for verdict in verdicts},
        results[ours:],
    )


@pytest.fixture
def results(checked: Checked) -> Mapping[str, RunResult]:
    return checked.results


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
def test_a_small_isr_is_told_with_the_samples_of_leaders_within_the_bound(spark: SparkSession, tmp_path: Path) -> None:
    history = History("small")
    history.written([100])
    history.fault("kill", [1], (100, 500))
    for at in range(600, BOUND_MS + 900, 100):
        history.sampled(at, 2, 1, isr=(2, 3))
    history.final([100])
    (result,) = check([history.write(tmp_path)], spark)
    (row,) = read_table(result.directory, "anomalies").to_pylist()
    assert "no sample of its leader showed all replicas of log-0 in sync (10 samples)" in row["explanation"]


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
        "Value 101 was acknowledged at offset 1 of log-0 by broker 1 at 0.025 s (acks=all), yet it is missing "
        "from a complete read of the partition. After the run, brokers 1 and 3 hold value 201 at offset 1. "
        "Active then: #1 kill of broker 2 from 0.025 s until 0.500 s."
    )
    evidence = json.loads(row["evidence"])
    assert evidence["operation"]["completed_ns"] == 25 * MS
    assert evidence["replicas"] == [{"broker": 1, "value": 201}, {"broker": 3, "value": 201}]
    assert [fault["fault"] for fault in evidence["faults"]] == [1]
    assert incidents_of(written) == list(bad.incidents)
    assert bad.incidents[0].headline.startswith("1 acknowledged write to log-0 (offset 1) was lost")


@pytest.mark.spark
def test_evidence_is_bounded_and_counts_are_exact(results: Mapping[str, RunResult]) -> None:
    result = results["losing_everything"]
    assert result.anomalies["lost-acked-write"].violations == 1_200
    rows = read_table(result.directory, "anomalies").to_pylist()
    offsets = [row["offset"] for row in rows]
    assert len(offsets) == 1_000
    assert offsets[0] == 0
    assert {later - earlier for earlier, later in zip(offsets, offsets[1:], strict=False)} == {1, 2}
    assert offsets[-1] >= 1_198


@pytest.mark.spark
def test_metrics_have_how_long_each_fault_kept_writers_waiting(results: Mapping[str, RunResult]) -> None:
    (fault,) = results["waiting"].metrics["faults"]
    assert (fault["without_acknowledged_writes_ms"], fault["to_recover_ms"]) == (680.0, 300.0)


@pytest.mark.spark
def test_a_run_with_few_records_proves_nothing(results: Mapping[str, RunResult]) -> None:
    few = results["few"]
    assert few.verdict == "unknown"
    assert "only 3 records were acknowledged" in (few.directory / "results.json").read_text()


@pytest.mark.spark
def test_a_remote_run_is_judged_like_a_local_one(results: Mapping[str, RunResult]) -> None:
    far, near = results[FAR], results["bad"]
    assert (far.verdict, far.anomalies, far.counts) == (near.verdict, near.anomalies, near.counts)
    assert far.anomalies["lost-acked-write"].violations == 1
    assert (far.directory / "results.json").is_file()


@pytest.mark.spark
def test_whatever_is_in_the_tables_there_is_a_verdict(checked: Checked) -> None:
    assert all((run / "results.json").is_file() for run in checked.garbage)
    assert "valid" not in {checked.results[run.name].verdict for run in checked.garbage}


@pytest.mark.spark
def test_whatever_bytes_are_in_a_file_there_is_a_verdict(checked: Checked) -> None:
    assert all(found.verdict in ("valid", "invalid", "unknown") and found.reason for found in checked.verdicts.values())
    assert checked.of_files, "some of the files are judged by Spark too"


def test_a_directory_without_a_history_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(NoHistoryError, match="holds no run"):
        check([tmp_path])


def test_nothing_to_check_needs_no_spark() -> None:
    assert check([]) == []
