"""Many simulated histories in one data set, checked on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from broker.core.broker_node.groups import loading, rebalancing
from broker.core.broker_node.groups.records import UnknownRecord
from history.reader import load_table
from history.schema import TABLES
from simulation.runs.checked_histories import Named, check_histories, write_dataset, write_part
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


@pytest.mark.spark
@pytest.mark.slow
def test_one_spark_job_finds_the_lies_and_clears_the_rest(dataset: Path, spark: SparkSession) -> None:
    judgements = check_histories(dataset)
    assert len(judgements) == 24
    fine = {run_id: judged for run_id, judged in judgements.items() if run_id.startswith("fine")}
    assert {judged.verdict for judged in fine.values()} == {"valid"}
    found = {name for run_id, judged in judgements.items() if run_id.startswith("lies") for name in judged.anomalies}
    assert "lost-acked-write" in found
    assert (dataset / "runs" / "lies-0" / "results.json").is_file()


@pytest.mark.slow
@pytest.mark.spark
def test_spark_judges_the_groups_too(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same anomalies as in plain Python, in the same runs."""
    members = {**FAULTY, "partitions": 2, "group_members": 3}
    cases = {
        "fine": [Named(f"fine-{seed}", Case(seed, members)) for seed in range(4)],
        "forgets": [Named(f"forgets-{seed}", Case(seed, members)) for seed in range(2)],
        "shares": [Named(f"shares-{seed}", Case(seed, members)) for seed in range(2)],
    }
    store = rebalancing.store_assignment

    def unknown(data: bytes) -> NoReturn:
        raise UnknownRecord("a commit that nobody loads")

    expected: dict[str, set[str]] = {}
    for what, named in cases.items():
        with monkeypatch.context() as planted:
            if what == "forgets":
                planted.setattr(loading, "decode_offset", unknown)
            if what == "shares":
                planted.setattr(
                    rebalancing,
                    "store_assignment",
                    lambda broker, shard, group, sent: store(broker, shard, group, dict.fromkeys(sent, bytes((0, 1)))),
                )
            write_part(tmp_path, what, named)
            for one in named:
                expected[one.run_id] = {name for name, _ in group_anomalies(run(one.case).history)}
    judgements = check_histories(tmp_path)
    found = {
        run_id: {name for name in judged.anomalies if name in ("lost-commit", "double-ownership")}
        for run_id, judged in judgements.items()
    }
    assert {judgements[one.run_id].verdict for one in cases["fine"]} == {"valid"}
    assert all("double-ownership" in found[one.run_id] for one in cases["shares"])
    assert all("lost-commit" in found[one.run_id] for one in cases["forgets"])
    assert all(names <= found[run_id] for run_id, names in expected.items())
    assert {"lost-commit", "double-ownership"} <= set().union(*expected.values())
