"""What a check does with run directories: broken files, missing tables, several runs, what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.check import RunNotFoundError, check
from checkers.verdict import AnomalyCount
from history.reader import read_table
from history.schema import ANOMALIES, TABLES
from tests.checkers.histories import MS, History

pytestmark = pytest.mark.spark


def healthy(name: str, records: int = 3) -> History:
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


def test_broken_histories_are_checked_as_far_as_they_go(spark: SparkSession, tmp_path: Path) -> None:
    names = (*TABLES, "torn", "truncated", "mistyped", "short", "bare", "braces{a,b}[1] *")
    runs = {name: healthy(name).write(tmp_path) for name in names}
    for table in TABLES:
        for part in (runs[table] / "history" / table).glob("*"):
            part.unlink()
    (runs["torn"] / "history" / "reads" / "part-u-000001.parquet").write_bytes(b"PAR1 and then the power went")
    sends = runs["truncated"] / "history" / "sends" / "part-t-000000.parquet"
    sends.write_bytes(sends.read_bytes()[:-20])
    wrong = pa.table({"run_id": ["mistyped"], "op": ["one"]})
    pq.write_table(wrong, runs["mistyped"] / "history" / "operations" / "part-u-000001.parquet")
    damage_pages(runs["short"] / "history" / "reads" / "part-t-000000.parquet")
    for directory in (runs["bare"] / "history").iterdir():
        for part in directory.iterdir():
            part.unlink()

    results = {result.directory.name: result for result in check(list(runs.values()), spark, acknowledged_min=0)}

    optional = {"faults", "cluster", "logs"}
    for table in TABLES:
        assert results[table].verdict == ("valid" if table in optional else "unknown"), table
    assert results["braces{a,b}[1] *"].verdict == "valid"
    for name in ("torn", "truncated", "mistyped", "short", "bare"):
        assert results[name].verdict == "unknown", name
        assert not any(count.violations for count in results[name].anomalies.values()), name
    assert any("part-u-000001.parquet" in reason for reason in results["torn"].reasons)
    assert any("column" in reason for reason in results["mistyped"].reasons)
    assert any("unreadable" in reason for reason in results["short"].reasons)


def damage_pages(part: Path) -> None:
    """Keep the footer, so that the file looks whole until somebody reads it."""
    content = bytearray(part.read_bytes())
    middle = len(content) // 4
    content[4:middle] = bytes(middle - 4)
    part.write_bytes(bytes(content))


def test_results_and_anomalies_are_written_and_explain_themselves(spark: SparkSession, tmp_path: Path) -> None:
    good, bad = healthy("good", records=120).write(tmp_path), lossy("bad").write(tmp_path)
    (bad / "anomalies").mkdir()
    pq.write_table(ANOMALIES.empty_table(), bad / "anomalies" / "part-000007.parquet")

    of_good, of_bad = check([good, bad], spark)

    assert (of_good.verdict, of_good.reasons, of_good.anomalies) == ("valid", (), {})
    assert of_good.counts["sends_ok"] == 120
    assert of_good.counts["records_read"] == 240
    assert of_good.metrics["send_latency_p50_ms"] == 5.0
    assert read_table(good, "anomalies").num_rows == 0
    assert of_bad.verdict == "invalid"
    assert of_bad.anomalies["lost-acked-write"] == AnomalyCount(violations=1, within_contract=0)
    results = json.loads((bad / "results.json").read_text())
    assert results["verdict"] == "invalid"
    assert results["anomalies"]["lost-acked-write"] == {"violations": 1, "within_contract": 0}
    assert [part.name for part in (bad / "anomalies").iterdir()] == ["part-000000.parquet"]
    (row,) = (row for row in read_table(bad, "anomalies").to_pylist() if row["anomaly"] == "lost-acked-write")
    assert row["explanation"] == (
        "Value 101 was acknowledged at offset 1 of log-0 by broker 1 at 0.025 s (acks=all), yet the final reads of the "
        "partition from its start to its agreed end do not show it. At offset 1 the logs hold after the run: brokers 1, 3 "
        "value 201. Active then: #1 kill of broker 2 from 0.025 s until 0.500 s."
    )
    evidence = json.loads(row["evidence"])
    assert evidence["operation"]["completed_ns"] == 25 * MS
    assert evidence["replicas"] == [{"broker": 1, "value": 201}, {"broker": 3, "value": 201}]
    assert [fault["fault"] for fault in evidence["faults"]] == [1]


def test_copies_of_one_run_do_not_mix(spark: SparkSession, tmp_path: Path) -> None:
    first = healthy("run").write(tmp_path / "first")
    second = lossy("run").write(tmp_path / "second")

    assert [result.verdict for result in check([first, second, first], spark, acknowledged_min=0)] == [
        "valid",
        "invalid",
        "valid",
    ]


def test_too_few_acknowledged_writes_are_unknown(spark: SparkSession, tmp_path: Path) -> None:
    (result,) = check([healthy("run").write(tmp_path)], spark)

    assert result.verdict == "unknown"
    assert result.reasons == ("only 3 records were acknowledged, 100 are needed to tell anything",)


def test_evidence_is_bounded_and_counts_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    history = History("run")
    history.written(range(100, 1_300))
    history.final([])

    (result,) = check([history.write(tmp_path)], spark)

    assert result.anomalies["lost-acked-write"].violations == 1_200
    rows = read_table(result.directory, "anomalies").to_pylist()
    assert len(rows) == 1_000
    assert [row["offset"] for row in rows] == list(range(1_000))


def test_metrics_tell_how_long_each_fault_kept_writers_waiting(spark: SparkSession, tmp_path: Path) -> None:
    history = History("run")
    history.send(100, (10, 20), offset=0)
    history.fault("kill", [1], (100, 400))
    history.send(101, (150, 700), offset=1)
    history.final([100, 101])

    (result,) = check([history.write(tmp_path)], spark, acknowledged_min=0)

    (fault,) = result.metrics["faults"]
    assert (fault["without_acknowledged_writes_ms"], fault["to_recover_ms"]) == (680.0, 300.0)


def test_a_directory_without_a_history_is_refused_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="holds no run"):
        check([tmp_path], spark)


def test_nothing_to_check_needs_no_spark() -> None:
    assert check([]) == []
