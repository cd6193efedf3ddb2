"""Parts are united at the end of a run: in their order, no row lost or doubled, whatever interrupts it or is broken."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from history import compaction
from history.compaction import compact
from history.parts import part_files, without_copies
from history.reader import load_table
from history.schema import TABLES
from history.writer import HistoryWriter

TABLE = "sends"


def write_parts(run: Path, writer: str, numbers: list[int], rows: int = 3) -> None:
    """Write parts of `rows` sends; `op` numbers a writer's rows."""
    with HistoryWriter(run / "history", "run", writer) as history:
        for number in numbers:
            for row in range(rows):
                history.add(TABLE, {"op": rows * number + row, "topic": writer})
            history.flush()


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "history" / TABLE).iterdir())


def ops(run: Path) -> list[tuple[str, int]]:
    table = load_table(run, TABLE).table
    return list(zip(table.column("topic").to_pylist(), table.column("op").to_pylist(), strict=True))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Parts of two writers, of which one has a name that the other's begins with."""
    write_parts(tmp_path, "worker1", [0, 1, 2, 3])
    write_parts(tmp_path, "worker1-000001", [0, 1])
    return tmp_path


def test_the_parts_of_each_writer_become_one_in_their_order(run: Path) -> None:
    before = ops(run)
    compact(run)
    first, other = names(run)
    assert [first.startswith("part-worker1-000000_"), other.startswith("part-worker1-000001-000000_")] == [True, True]
    assert sorted(ops(run)) == sorted(before)
    assert [op for writer, op in ops(run) if writer == "worker1"] == sorted(op for _, op in before if _ == "worker1")
    compact(run)
    assert names(run) == [first, other]


def test_a_file_tells_which_operations_each_row_group_holds(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "ROWS_OF_A_ROW_GROUP", 6)
    compact(run)
    metadata = pq.read_metadata(run / "history" / TABLE / names(run)[0])
    column = TABLES[TABLE].get_field_index("op")
    statistics = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
    assert [(each.min, each.max) for each in statistics] == [(0, 5), (6, 11)]


def test_a_file_has_a_most_number_of_rows(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "ROWS_OF_A_FILE", 7)
    before = sorted(ops(run))
    compact(run)
    sizes = [pq.read_metadata(path).num_rows for path in part_files(run / "history" / TABLE)]
    assert max(sizes) <= 7
    assert len(sizes) < len(before) // 3
    assert sorted(ops(run)) == before


def test_no_row_counts_twice_when_it_ends_before_the_parts_are_removed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(ops(run))

    def refuse(_: Path, *, missing_ok: bool = False) -> None:
        if not missing_ok:
            raise PermissionError("the run ends here")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        compact(run)
    assert len(names(run)) > 2
    assert len(load_table(run, TABLE).table) == len(before)
    assert sorted(ops(run)) == before
    compact(run)
    assert sorted(ops(run)) == before


def test_a_part_that_cannot_be_read_stays_with_its_gap_and_the_others_are_united(run: Path) -> None:
    directory = run / "history" / TABLE
    broken = directory / "part-worker1-000001.parquet"
    broken.write_bytes(b"no Parquet")
    before = sorted(ops(run))
    compact(run)
    assert broken.exists()
    assert "part-worker1-000000.parquet" in names(run)
    loaded = load_table(run, TABLE)
    assert sorted(ops(run)) == before
    assert [line.partition(":")[0] for line in loaded.skipped] == [broken.name]


def test_parts_with_a_broken_row_group_stay(run: Path) -> None:
    part = run / "history" / TABLE / "part-worker1-000001.parquet"
    content = bytearray(part.read_bytes())
    content[4:40] = bytes(36)
    part.write_bytes(bytes(content))
    before = names(run)
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_table(part)
    compact(run)
    assert {name for name in before if "worker1-000001-" not in name} <= set(names(run))


def test_parts_with_other_columns_and_names_of_other_tools_stay(run: Path) -> None:
    directory = run / "history" / TABLE
    pq.write_table(TABLES[TABLE].empty_table().drop_columns(["ordinal"]), directory / "part-worker2-000000.parquet")
    pq.write_table(TABLES[TABLE].empty_table(), directory / "part-7.parquet")
    compact(run)
    assert {"part-worker2-000000.parquet", "part-7.parquet"} <= set(names(run))


def test_a_run_without_a_history_is_left_alone(tmp_path: Path) -> None:
    compact(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_hides_only_parts_of_its_writer_and_its_range() -> None:
    united = "part-a-000002_000004.parquet"
    others = ["part-a-000001.parquet", "part-a-000005.parquet", "part-b-000003.parquet", "part-7.parquet"]
    copies = ["part-a-000002.parquet", "part-a-000003.parquet", "part-a-000003_000004.parquet"]
    assert without_copies([united, *others, *copies]) == sorted([united, *others])
