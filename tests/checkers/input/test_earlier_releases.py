"""Histories of earlier releases, whose tables lack columns that came later."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.input.tables import schema_problem
from checkers.screening.columns import read_parts
from history.schema import LATER_COLUMNS, TABLES

CLUSTER = TABLES["cluster"]


def test_a_column_that_came_later_may_be_absent_and_no_other() -> None:
    assert {name for name in CLUSTER.names if name in LATER_COLUMNS} == {"last_known_elr"}
    for name in CLUSTER.names:
        without = CLUSTER.remove(CLUSTER.get_field_index(name))
        problem = schema_problem(without, CLUSTER)
        assert problem == (None if name in LATER_COLUMNS else f"no column {name}")


def test_a_column_of_another_type_is_a_problem_whenever_it_came() -> None:
    at = CLUSTER.get_field_index("last_known_elr")
    other = CLUSTER.set(at, pa.field("last_known_elr", pa.string()))
    assert schema_problem(other, CLUSTER) == "column last_known_elr is string, not list<item: int32>"


def test_parts_of_both_releases_are_read_as_one_table(tmp_path: Path) -> None:
    row = dict.fromkeys(CLUSTER.names) | {"run_id": "run", "elr": [1], "last_known_elr": [2]}
    new = pa.Table.from_pylist([row], CLUSTER)
    pq.write_table(new, tmp_path / "part-new-000000.parquet")
    pq.write_table(new.drop_columns(["last_known_elr"]), tmp_path / "part-old-000000.parquet")
    read = read_parts(sorted(tmp_path.iterdir()), CLUSTER)
    assert read.schema.names == CLUSTER.names
    assert read.column("last_known_elr").to_pylist() == [[2], None]
    assert read.column("elr").to_pylist() == [[1], [1]]
