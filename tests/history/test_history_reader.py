"""A table is read back whole, or as much of it as can be read."""

import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from history.reader import load_table, read_table
from history.schema import ANOMALIES, FAULTS, PHASES


def _write(directory, name, rows, schema):
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), directory / name)


def _phase(name, started, ended):
    return {"run_id": "r", "phase": name, "started_ns": started, "ended_ns": ended}


def test_parts_are_united_in_the_order_of_their_names(tmp_path):
    directory = tmp_path / "history" / "phases"
    _write(directory, "part-00002.parquet", [_phase("final", 2, 3)], PHASES)
    _write(directory, "part-00001.parquet", [_phase("main", 1, 2)], PHASES)
    assert read_table(tmp_path, "phases").column("phase").to_pylist() == ["main", "final"]


def test_an_unreadable_part_is_left_out_and_named(tmp_path, caplog):
    directory = tmp_path / "history" / "phases"
    _write(directory, "part-1.parquet", [_phase("main", 1, 2)], PHASES)
    whole = (directory / "part-1.parquet").read_bytes()
    (directory / "part-2.parquet").write_bytes(whole[: len(whole) // 2])
    (directory / "part-3.parquet").write_bytes(b"")
    loaded = load_table(tmp_path, "phases")
    assert loaded.table.num_rows == 1
    assert loaded.parts == 1
    assert [line.split(":")[0] for line in loaded.skipped] == ["part-2.parquet", "part-3.parquet"]
    with caplog.at_level(logging.WARNING, "harrow.history"):
        assert read_table(tmp_path, "phases").num_rows == 1
    assert "part-2.parquet" in caplog.text


def test_a_part_that_is_still_being_written_is_not_read(tmp_path):
    directory = tmp_path / "history" / "phases"
    _write(directory, "part-1.parquet.tmp", [_phase("main", 1, 2)], PHASES)
    assert load_table(tmp_path, "phases").parts == 0


def test_a_missing_table_is_empty_and_has_the_schema(tmp_path):
    loaded = load_table(tmp_path, "faults")
    assert loaded.table.schema == FAULTS
    assert (loaded.table.num_rows, loaded.parts) == (0, 0)


def test_anomalies_are_next_to_the_history(tmp_path):
    _write(tmp_path / "anomalies", "part-0.parquet", [{"run_id": "r", "anomaly": "lost-read"}], ANOMALIES)
    assert read_table(tmp_path, "anomalies").column("anomaly").to_pylist() == ["lost-read"]


def test_columns_of_another_version_are_fitted_to_the_schema(tmp_path):
    narrow = pa.schema([("phase", pa.string()), ("started_ns", pa.int32()), ("colour", pa.string())])
    rows = [{"phase": "main", "started_ns": 7, "colour": "red"}]
    _write(tmp_path / "history" / "phases", "part-0.parquet", rows, narrow)
    (row,) = read_table(tmp_path, "phases").to_pylist()
    assert row == {"run_id": None, "phase": "main", "started_ns": 7, "ended_ns": None}


def test_a_column_of_an_impossible_type_makes_the_part_unreadable(tmp_path):
    odd = pa.schema([("phase", pa.string()), ("started_ns", pa.string())])
    rows = [{"phase": "main", "started_ns": "noon"}]
    _write(tmp_path / "history" / "phases", "part-0.parquet", rows, odd)
    loaded = load_table(tmp_path, "phases")
    assert loaded.table.num_rows == 0
    assert loaded.skipped[0].startswith("part-0.parquet")


def test_only_the_columns_asked_for_are_read(tmp_path):
    _write(tmp_path / "history" / "phases", "part-1.parquet", [_phase("main", 1, 2)], PHASES)
    assert load_table(tmp_path, "phases", ["phase"]).table.column_names == ["phase"]


def test_a_name_that_is_no_table_is_refused(tmp_path):
    with pytest.raises(KeyError):
        read_table(tmp_path, "rumours")
