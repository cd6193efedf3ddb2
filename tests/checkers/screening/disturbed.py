"""Correct random histories in which a few cells were changed: many show nothing, most of the others one anomaly."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from checkers.input.run_facts import facts_of
from checkers.input.tables import survey_dataset
from checkers.screening.ordinary.loaded import LOADED, LoadedHistory
from checkers.screening.ordinary.recognise import OrdinaryRun, recognised
from tests.checkers.anomalies.mutations import MUTATIONS, Log, acknowledged
from tests.checkers.histories import MS, TOPIC, History
from tests.checkers.oracle.agreement import write_dataset
from tests.checkers.oracle.oracle import ORACLE
from tests.checkers.oracle.oracle_rows import Rows

STEPS = (-5 * MS, -MS, -1, 1, MS, 5 * MS)
KEPT = ("run_id", "op", "topic", "partition")
"""Columns that are left as they are: the loops know of one partition only."""
SENDS_MIN = 3
"""Acknowledged sends that a mutation needs."""


def disturbed(seed: int) -> History:
    """A correct log, with dumped logs and samples or not; up to three cells or rows are changed, or one mutation is."""
    choices, log = random.Random(seed), Log(f"log-{seed}", seed)
    history = log.history
    if choices.random() < 0.5:
        for broker in (1, 2):
            for offset, value in enumerate(log.log):
                history.row(
                    "logs", broker=broker, topic=TOPIC, partition=0, offset=offset, value=value, leader_epoch=1,
                    high_watermark=len(log.log), crc=value,
                )  # fmt: skip
            for second in range(4):
                history.row(
                    "cluster", at_ns=second * 200 * MS, broker=broker, topic=TOPIC, partition=0, leader=1,
                    role="leader" if broker == 1 else "follower", leader_epoch=1, log_start=0, log_end=0,
                    high_watermark=choices.choice((0, len(log.log))), isr=[1, 2, 3], elr=[],
                )  # fmt: skip
    if choices.random() < 0.2 and len(acknowledged(log)) >= SENDS_MIN:
        choices.choice(MUTATIONS)(log)
    for _ in range(choices.choice((0, 1, 1, 1, 2, 3))):
        _disturb(choices, history)
    return history


def _disturb(choices: random.Random, history: History) -> None:
    rows = history.tables[choices.choice([table for table in LOADED if history.tables[table]])]
    row = choices.choice(rows)
    if choices.random() < 0.15:
        rows.remove(row)
        return
    name = choices.choice([name for name in row if name not in KEPT])
    value = row[name]
    if isinstance(value, int) and not isinstance(value, bool) and choices.random() < 0.5:
        row[name] = max(0, value + choices.choice(STEPS))
    else:
        row[name] = choices.choice(rows).get(name)


def beside(first: History, *others: History) -> History:
    """Put the rows of other histories into partitions of their own of the first: same processes, other operations."""
    for number, other in enumerate(others, start=1):
        apart = {"op": 10_000 * number, "value": 1_000_000 * number, "partition": number}
        for table in (*LOADED, "ends"):
            for row in other.tables[table]:
                moved = {
                    name: value + apart.get(name, 0) if name in apart and value is not None else value
                    for name, value in row.items()
                }
                first.tables[table].append({**moved, "run_id": first.name})
    return first


def loaded(histories: Iterable[History]) -> LoadedHistory:
    """Load histories as one task does."""
    with TemporaryDirectory() as directory:
        write_dataset(Path(directory), histories)
        runs = survey_dataset(Path(directory))
        files = {table: tuple(path for run in runs for path in run.large[table].files) for table in LOADED}
        return LoadedHistory.read(files, [facts_of(run) for run in runs])


def ordinary(histories: Iterable[History]) -> dict[str, OrdinaryRun]:
    """Recognise the ordinary ones of some histories, by name."""
    return recognised(loaded(histories))


def shown_by(history: History, anomalies: Collection[str] = tuple(ORACLE)) -> set[str] | None:
    """The anomalies that loops over the rows find; None if rows lack what a loop needs."""
    try:
        rows = Rows.of(history)
        return {name for name in anomalies if list(ORACLE[name](rows))}
    except (KeyError, TypeError, ValueError):
        return None
