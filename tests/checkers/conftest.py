"""Histories that are checked in one batch, because planning a check costs more than their rows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from checkers.check import check
from checkers.verdict.verdict import RunResult
from tests.checkers.anomalies import cases, group_cases
from tests.checkers.anomalies.group_mutations import GROUP_MUTATIONS, Group
from tests.checkers.anomalies.mutations import MUTATIONS, Log, acknowledged
from tests.checkers.histories import History

CASES = [*cases.CASES, *group_cases.CASES]
"""Every anomaly and every near miss."""

WITHOUT_DUPLICATES = [case for case in CASES if not case.history.has_duplicates()]
"""A batch of these is screened; one with others among them is looked at as a whole."""

MUTATED = 40


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int | None:
    """Of random histories: another each time, and that of pytest's `--randomly-seed`, which it begins with, again."""
    return request.config.getoption("randomly_seed", None)


@pytest.fixture(scope="session")
def mutated(seed: int | None) -> Sequence[tuple[History, str | None]]:
    """Correct random histories, most with one thing broken, and the anomaly that each must show."""
    log_changes, group_changes = itertools.cycle((None, *MUTATIONS)), itertools.cycle((None, *GROUP_MUTATIONS))
    made: list[tuple[History, str | None]] = []
    tried = set()
    for number in random.Random(seed).sample(range(2**32), MUTATED):
        log, group = Log(f"log-{number}", number), Group(f"group-{number}", number)
        change_group = next(group_changes)
        made.append((group.history, None if change_group is None else change_group(group)))
        change_log = next(log_changes) if len(acknowledged(log)) >= 3 else None
        made.append((log.history, None if change_log is None else change_log(log)))
        tried |= {change_group, change_log}
    assert tried == {None, *MUTATIONS, *GROUP_MUTATIONS}
    return made


@pytest.fixture(scope="session")
def copies() -> tuple[History, History]:
    """Two histories of one run id, the second with a loss."""
    whole, lossy = History("copied"), History("copied")
    for history, read in ((whole, [100, 101]), (lossy, [100])):
        history.written([100, 101])
        history.final(read)
    return whole, lossy


@dataclass(frozen=True)
class Batches:
    """What was found in histories, by run id."""

    whole: Mapping[str, RunResult]
    screened: Mapping[str, RunResult]


@pytest.fixture(scope="session")
def batches(
    start_spark: Callable[[], SparkSession],
    mutated: Sequence[tuple[History, str | None]],
    copies: tuple[History, History],
    tmp_path_factory: pytest.TempPathFactory,
) -> Batches:
    """All of these in one call: a batch of every history, and one of the copies of those without duplicates."""
    whole = [copies[0], *(case.history for case in CASES), *(history for history, _ in mutated)]
    screened = [copies[1], *(case.history for case in WITHOUT_DUPLICATES)]
    assert {history.name for history in screened} <= {history.name for history in whole}
    one, other = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("screened")
    runs = [*(history.write(one) for history in whole), *(history.write(other) for history in screened)]
    found = check(runs, start_spark(), acknowledged_min=0)
    assert [result.directory for result in found] == runs
    first, second = found[: len(whole)], found[len(whole) :]
    return Batches({result.run_id: result for result in first}, {result.run_id: result for result in second})
