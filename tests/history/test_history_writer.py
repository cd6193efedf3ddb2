import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from history.clock import RunClock
from history.reader import load_table
from history.schema import TABLES
from history.writer import HistoryError, HistoryWriter

SEND = (7, "chaos", 0, 42, -1, None, 0)


def parts(directory: Path, table: str) -> list[Path]:
    return sorted((directory / "history" / table).glob("part-*.parquet"))


def test_rows_come_back_with_the_run_id_and_the_schema_of_every_table(tmp_path):
    with HistoryWriter(tmp_path / "history", "run-1", "w0") as history:
        for name, schema in TABLES.items():
            history.add(name, {column: None for column in schema.names if column != "run_id"})
    for name, schema in TABLES.items():
        (part,) = parts(tmp_path, name)
        table = pq.read_table(part, schema=None)
        assert table.schema.equals(schema), name
        assert table.column("run_id").to_pylist() == ["run-1"]


def test_a_row_is_a_tuple_in_schema_order_or_a_mapping_with_gaps(tmp_path):
    with HistoryWriter(tmp_path / "history", "r", "w") as history:
        history.add("sends", SEND)
        history.add("sends", {"op": 8, "value": 43})
    rows = load_table(tmp_path, "sends").table.to_pylist()
    assert rows[0] == dict(zip(TABLES["sends"].names, ("r", *SEND), strict=True))
    assert rows[1] == dict.fromkeys(TABLES["sends"].names) | {"run_id": "r", "op": 8, "value": 43}


def test_unknown_tables_and_columns_are_refused_by_name(tmp_path):
    with HistoryWriter(tmp_path / "history", "r", "w") as history:
        with pytest.raises(HistoryError, match="no table 'sendz'"):
            history.add("sendz", SEND)
        with pytest.raises(HistoryError, match="table sends has no column colour"):
            history.add("sends", {"colour": 1})


def test_parts_are_written_as_the_run_goes(tmp_path):
    with HistoryWriter(tmp_path / "history", "r", "w", rows_per_part=10) as history:
        sends = history.table("sends")
        for _ in range(10):
            sends.add(SEND)
        history.flush()
        assert parts(tmp_path, "sends")
        for _ in range(5):
            sends.add(SEND)
    table = load_table(tmp_path, "sends")
    assert table.table.num_rows == 15
    assert table.parts >= 2


def test_a_history_that_was_killed_half_way_can_be_read(tmp_path):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from history.writer import HistoryWriter\n"
        "sends = HistoryWriter(Path(sys.argv[1]), 'r', 'w', flush_interval_s=0.02).table('sends')\n"
        "number = 0\n"
        "while True:\n"
        "    sends.add((number, 'chaos', 0, number, -1, None, 0))\n"
        "    number += 1\n"
        "    if number % 1000 == 0:\n"
        "        print(number, flush=True)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "history")],
        stdout=subprocess.PIPE,
        env=environment,
    ) as writer:
        assert writer.stdout is not None
        while len(parts(tmp_path, "sends")) < 3:
            assert writer.stdout.readline(), "the writer died by itself"
        os.kill(writer.pid, signal.SIGKILL)
    loaded = load_table(tmp_path, "sends")
    assert not loaded.skipped
    ops = loaded.table.column("op").to_pylist()
    assert ops == list(range(len(ops)))


def test_the_first_rows_of_a_table_do_not_wait_for_their_time(tmp_path):
    with HistoryWriter(tmp_path / "history", "r", "w", flush_interval_s=3600) as history:
        history.add("sends", {"op": 1})
        deadline = time.monotonic() + 10
        while not parts(tmp_path, "sends"):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_leftover_of_a_killed_writer_is_not_part_of_the_table(tmp_path):
    with HistoryWriter(tmp_path / "history", "r", "w") as history:
        history.add("sends", SEND)
    (tmp_path / "history" / "sends" / ".part-w-000001.parquet.unfinished").write_bytes(b"PAR1half")
    loaded = load_table(tmp_path, "sends")
    assert loaded.table.num_rows == 1
    assert not loaded.skipped


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path):
    with HistoryWriter(tmp_path / "history", "r", "w", rows_per_part=500, rows_max=2_000) as history:
        sends = history.table("sends")
        tracemalloc.start()
        most = 0
        for _ in range(30_000):
            sends.add(SEND)
            most = max(most, len(sends))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most <= 2_000
    assert peak < 4_000_000
    assert load_table(tmp_path, "sends").table.num_rows == 30_000


def test_a_disk_that_fails_is_reported_to_the_next_caller_that_adds(tmp_path):
    (tmp_path / "history").write_text("in the way")
    history = HistoryWriter(tmp_path / "history", "r", "w")
    history.add("sends", SEND)
    with pytest.raises(HistoryError, match="cannot write the history in"):
        history.flush()
    with pytest.raises(HistoryError, match="cannot write the history in"):
        history.add("sends", SEND)
    with pytest.raises(HistoryError):
        history.close()


def test_a_row_that_does_not_fit_its_schema_is_reported(tmp_path):
    history = HistoryWriter(tmp_path / "history", "r", "w")
    history.add("sends", ("not a number", *SEND[1:]))
    with pytest.raises(HistoryError):
        history.close()


def test_two_clocks_of_one_origin_agree():
    first = RunClock.starting_now()
    second = RunClock(first.origin_ns)
    earlier = first.now()
    later = second.now()
    assert 0 <= earlier <= later < 5_000_000_000
