"""Many simulated histories in one data set, checked on Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest
from pyspark.sql import SparkSession

from broker.core.broker_node.groups import loading, rebalancing
from broker.core.broker_node.groups.records import UnknownRecord
from history.reader import load_table
from history.schema import TABLES
from simulation.runs.checked_histories import CheckedRun, Named, check_histories, write_dataset, write_part
from simulation.runs.group_findings import group_anomalies
from simulation.scenario.case import Case, run
from simulation.workload.sampling import records_of
from tests.simulation.small import QUICK

FAULTY = {
    **QUICK,
    "duration_ms": 30_000,
    "operations": 100,
    "polls": 60,
    "faults": ("kill", "isolate"),
    "sole_survivor": True,
}
LIES = {**FAULTY, "flaws": ("ack-before-replication",)}
GROUP_ANOMALIES = {"lost-commit", "double-ownership"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Histories of the correct build, and of one that acknowledges too early and loses some writes."""
    directory = tmp_path_factory.mktemp("dataset")
    named = [Named(f"fine-{seed}", Case(seed, FAULTY)) for seed in range(12)]
    write_dataset(directory, [*named, *(Named(f"lies-{seed}", Case(seed, LIES)) for seed in range(12))])
    return directory


def test_every_table_holds_the_rows_of_every_run(dataset: Path) -> None:
    # The observer watches a simulated quorum; nobody keeps objects, is in a group, or administers, nothing broke, and
    # no node is upgraded.
    others = {"quorum", "commands", "commits", "ownerships", "administration", "troubles", "losses", "versions"}
    others |= {"repeats"}  # no client of the simulation raises the epoch of its producer
    for name in TABLES.keys() - others:
        ids = set(load_table(dataset, name, ["run_id"]).table.column("run_id").to_pylist())
        if name == "faults":
            assert ids  # a seed may have none
        else:
            assert ids == {f"{what}-{seed}" for what in ("fine", "lies") for seed in range(12)}, name


def test_rows_say_what_the_simulation_saw(dataset: Path) -> None:
    outcome = run(Case(3, FAULTY))
    for name, rows in (
        ("operations", outcome.history.operations),
        ("sends", outcome.history.sends),
        ("reads", outcome.history.reads),
        ("polls", outcome.history.polls),
        ("logs", [row for log in outcome.logs.values() for row in records_of(log.data)]),
    ):
        ids = load_table(dataset, name, ["run_id"]).table.column("run_id").to_pylist()
        assert ids.count("fine-3") == len(rows), name


def test_aggressive_recovery_promises_no_more_than_unclean_elections(tmp_path: Path) -> None:
    named = [Named(kind, Case(1, {**QUICK, "unclean_recovery": kind})) for kind in ("Balanced", "Aggressive")]
    write_dataset(tmp_path, named)
    runs = load_table(tmp_path, "runs", ["run_id", "unclean_election"]).table.to_pydict()
    assert dict(zip(runs["run_id"], runs["unclean_election"], strict=True)) == {"Balanced": False, "Aggressive": True}


GROUPS = {**FAULTY, "partitions": 2, "group_members": 3}
OF_GROUPS = {
    "members": [Named(f"members-{seed}", Case(seed, GROUPS)) for seed in range(4)],
    "forgets": [Named(f"forgets-{seed}", Case(seed, GROUPS)) for seed in range(2)],
    "shares": [Named(f"shares-{seed}", Case(seed, GROUPS)) for seed in range(2)],
}


class Judged(NamedTuple):
    """What Spark found in all histories in one set of jobs, and what plain Python found of the groups, by run id."""

    directory: Path
    on_spark: Mapping[str, CheckedRun]
    groups_in_python: Mapping[str, set[str]]


@pytest.fixture(scope="module")
def judged(dataset: Path, start_spark: Callable[[], SparkSession], tmp_path_factory: pytest.TempPathFactory) -> Judged:
    directory = tmp_path_factory.mktemp("judged") / "dataset"
    shutil.copytree(dataset, directory)
    expected: dict[str, set[str]] = {}
    store = rebalancing.store_assignment

    def unknown(data: bytes) -> NoReturn:
        raise UnknownRecord("a commit that nobody loads")

    for what, named in OF_GROUPS.items():
        with pytest.MonkeyPatch.context() as planted:
            if what == "forgets":
                planted.setattr(loading, "decode_offset", unknown)
            if what == "shares":
                planted.setattr(
                    rebalancing,
                    "store_assignment",
                    lambda broker, shard, group, sent: store(broker, shard, group, dict.fromkeys(sent, bytes((0, 1)))),
                )
            write_part(directory, what, named)
            for one in named:
                expected[one.run_id] = {name for name, _ in group_anomalies(run(one.case).history)}
    start_spark()
    return Judged(directory, check_histories(directory), expected)


@pytest.mark.spark
@pytest.mark.slow
def test_one_spark_job_finds_the_lies_and_clears_the_rest(judged: Judged) -> None:
    found = {run_id: one for run_id, one in judged.on_spark.items() if run_id.startswith(("fine", "lies"))}
    assert len(found) == 24
    assert {one.verdict for run_id, one in found.items() if run_id.startswith("fine")} == {"valid"}
    names = {name for run_id, one in found.items() if run_id.startswith("lies") for name in one.anomalies}
    assert "lost-acked-write" in names
    assert (judged.directory / "runs" / "lies-0" / "results.json").is_file()


@pytest.mark.slow
@pytest.mark.spark
def test_spark_judges_the_groups_too(judged: Judged) -> None:
    """The same anomalies as in plain Python, in the same runs."""
    found = {
        one.run_id: {name for name in judged.on_spark[one.run_id].anomalies if name in GROUP_ANOMALIES}
        for named in OF_GROUPS.values()
        for one in named
    }
    assert {judged.on_spark[one.run_id].verdict for one in OF_GROUPS["members"]} == {"valid"}
    assert all("double-ownership" in found[one.run_id] for one in OF_GROUPS["shares"])
    assert all("lost-commit" in found[one.run_id] for one in OF_GROUPS["forgets"])
    assert all(names <= found[run_id] for run_id, names in judged.groups_in_python.items())
    assert set().union(*judged.groups_in_python.values()) >= GROUP_ANOMALIES
