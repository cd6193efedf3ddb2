"""Histories that are checked in one batch, because planning a check costs more than their rows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.check import check
from checkers.verdict import RunResult
from tests.checkers import cases, group_cases
from tests.checkers.group_mutations import GROUP_MUTATIONS, Group
from tests.checkers.histories import History
from tests.checkers.mutations import MUTATIONS, Log, acknowledged

CASES = [*cases.CASES, *group_cases.CASES]
"""Every anomaly and every near miss."""

SEEDS = 40


@pytest.fixture(scope="session")
def mutated(request: pytest.FixtureRequest) -> Sequence[tuple[History, str | None]]:
    """Correct random histories, most with one thing broken, and the anomaly that each must show.

    They are others each time; pytest's `--randomly-seed`, with the number that it begins with, brings them back.
    """
    choices = random.Random(request.config.getoption("randomly_seed", None))
    log_changes, group_changes = itertools.cycle((None, *MUTATIONS)), itertools.cycle((None, *GROUP_MUTATIONS))
    made: list[tuple[History, str | None]] = []
    tried = set()
    for seed in choices.sample(range(2**32), SEEDS):
        log, group = Log(f"log-{seed}", seed), Group(f"group-{seed}", seed)
        change_group = next(group_changes)
        made.append((group.history, None if change_group is None else change_group(group)))
        change_log = next(log_changes) if len(acknowledged(log)) >= 3 else None
        made.append((log.history, None if change_log is None else change_log(log)))
        tried |= {change_group, change_log}
    assert tried == {None, *MUTATIONS, *GROUP_MUTATIONS}
    return made


@pytest.fixture(scope="session")
def results(
    spark: SparkSession, mutated: Sequence[tuple[History, str | None]], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, RunResult]:
    """The cases and the random histories, checked as a whole, by run id."""
    return checked([*(case.history for case in CASES), *(history for history, _ in mutated)], spark, tmp_path_factory)


def checked(
    histories: Sequence[History], spark: SparkSession, places: pytest.TempPathFactory
) -> Mapping[str, RunResult]:
    """Check histories in one batch; results by run id."""
    directory: Path = places.mktemp("runs")
    runs = [history.write(directory) for history in histories]
    found = check(runs, spark, acknowledged_min=0)
    assert [result.directory for result in found] == runs
    return {result.run_id: result for result in found}
