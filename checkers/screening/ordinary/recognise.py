"""Decides which runs are ordinary, in tasks of a Spark job that get paths and read the files themselves.

Of a long run that is not, what the tasks have seen is passed on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from checkers.input.room import EXCHANGED_BYTES_OF_A_ROW, need_room
from checkers.input.run_facts import RunFacts
from checkers.input.sizes import rows_of
from checkers.input.tables import RunFiles, share_files
from checkers.screening.long.recognise import SparkEngine, SuspectRun, work_on
from checkers.screening.long.recognise import recognised as recognised_in_chunks
from checkers.screening.ordinary.answers import suspect_polls, two_leaders
from checkers.screening.ordinary.availability import unavailable
from checkers.screening.ordinary.counting import OrdinaryRun, numbers_of
from checkers.screening.ordinary.loaded import LOADED, LoadedHistory
from checkers.screening.ordinary.records import malformed, suspect_records
from checkers.screening.ordinary.resolved import resolved_sends

ROWS_OF_A_TASK_MIN: Final = 150_000
"""Runs with fewer rows are judged together: a task more costs some 50 ms of processor time."""
ROWS_OF_A_RUN_MAX: Final = 1_000_000
"""Of the runs of one call; a task holds all of its rows, some 370 bytes for each, and every core has a task."""
ROWS_OF_A_LONE_RUN_MAX: Final = 4_000_000
"""Of a run that is the only one of a call. A longer one is divided (`checkers.screening.long`)."""
_NEVER_ORDINARY: Final = ("commands", "commits", "ownerships")

_SUSPECTS: Final = (malformed, suspect_records, suspect_polls, two_leaders, unavailable)


@dataclass(frozen=True)
class RunsOfTask:
    """What one task gets: the part files of some runs, and facts of these."""

    files: Mapping[str, tuple[Path, ...]]
    facts: tuple[RunFacts, ...]


def recognised_runs(
    spark: SparkSession, runs: Sequence[RunFiles], facts: Sequence[RunFacts]
) -> dict[str, OrdinaryRun | SuspectRun]:
    """Return the numbers of the runs that are ordinary, and what is suspect in long ones, by run id.

    One task reads all of a run. Runs that share files (`checkers.input.tables.survey_dataset`) have one task together.
    Longer runs are divided, one after the other. Raises `checkers.input.room.NoRoomError`.
    """
    context = spark.sparkContext
    rows_max = ROWS_OF_A_LONE_RUN_MAX if len(runs) == 1 else ROWS_OF_A_RUN_MAX
    candidates = {run.run_id for run in runs if _may_be_ordinary(run)}
    short = {run.run_id for run in runs if run.run_id in candidates and rows_of([run]) <= rows_max}
    tasks = list(_tasks(runs, facts, short, context.defaultParallelism))
    in_tasks = context.parallelize(tasks, len(tasks)).map(recognise).collect() if tasks else []
    found: dict[str, OrdinaryRun | SuspectRun] = {
        run_id: run for of_task in in_tasks for run_id, run in of_task.items() if run_id in short
    }
    for run, of_run in zip(runs, facts, strict=True) if not share_files(runs) else ():
        if run.run_id in candidates - short and not of_run.deleted_topics:
            need_room(spark, rows_of([run]), EXCHANGED_BYTES_OF_A_ROW)
            work = work_on(run, of_run, context.defaultParallelism)
            long = None if work is None else recognised_in_chunks(SparkEngine(context, work), of_run)
            found |= {} if long is None else {run.run_id: long}
    return found


def recognise(task: RunsOfTask) -> dict[str, OrdinaryRun]:
    """Judge the runs of a task: none of them is ordinary if a file cannot be read, or has rows of another run."""
    pa.set_cpu_count(1)
    try:
        return recognised(LoadedHistory.read(task.files, task.facts))
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return {}


def recognised(history: LoadedHistory) -> dict[str, OrdinaryRun]:
    """Return the ordinary runs of a history in memory, by run id."""
    if not history.whole or not history.facts:
        return {}
    ordinary = np.array([not of_run.deleted_topics for of_run in history.facts], np.bool_)
    for suspects in _SUSPECTS:
        for runs in suspects(history):
            ordinary[runs] = False
        if not ordinary.any():
            return {}
    counted = numbers_of(history, np.flatnonzero(ordinary).tolist())
    resolved = resolved_sends(history)
    return {
        history.run_ids[run]: OrdinaryRun(numbers, tuple(resolved.chosen(run, history)))
        for run, numbers in counted.items()
    }


def _may_be_ordinary(run: RunFiles) -> bool:
    elsewhere = any(parts.remote for parts in run.large.values())
    return not elsewhere and not any(run.large[table].rows for table in _NEVER_ORDINARY)


def _tasks(
    runs: Sequence[RunFiles], facts: Sequence[RunFacts], able: Collection[str], cores: int
) -> Iterator[RunsOfTask]:
    if share_files(runs):
        if able and rows_of(runs) <= ROWS_OF_A_RUN_MAX:
            yield _task(list(zip(runs, facts, strict=True)))
        return
    candidates = [(run, of_run) for run, of_run in zip(runs, facts, strict=True) if run.run_id in able]
    rows_of_a_task = max(ROWS_OF_A_TASK_MIN, -(-rows_of(run for run, _ in candidates) // max(1, cores)))
    taken: list[tuple[RunFiles, RunFacts]] = []
    for each in candidates:
        if taken and rows_of([*(run for run, _ in taken), each[0]]) > min(rows_of_a_task, ROWS_OF_A_RUN_MAX):
            yield _task(taken)
            taken = []
        taken.append(each)
    if taken:
        yield _task(taken)


def _task(runs: Sequence[tuple[RunFiles, RunFacts]]) -> RunsOfTask:
    files = {table: tuple(path for run, _ in runs for path in run.large[table].files) for table in LOADED}
    return RunsOfTask(files, tuple(facts for _, facts in runs))
