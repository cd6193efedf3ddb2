"""Judges the polls and samples of a long run in one task, from the summaries of its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from checkers.input.run_facts import RunFacts
from checkers.screening.columns import Longs, read_parts
from checkers.screening.long.blocks import widened
from checkers.screening.long.reading import loaded
from checkers.screening.long.summary import SUMMARY_TABLES, ChunkSummary, LoggedReplica
from checkers.screening.long.tally import Tally
from checkers.screening.ordinary.answers import suspect_polls, two_leaders
from checkers.screening.ordinary.availability import unavailable
from checkers.screening.ordinary.counting import Numbers, final_reads_in, rows_in
from checkers.screening.ordinary.records import malformed
from history.schema import TABLES

_SUSPECTS: Final = (suspect_polls, two_leaders, unavailable)


@dataclass(frozen=True)
class Answers:
    """What all polls and samples of a run show, and its numbers."""

    ordinary: bool
    """Whether they show nothing that could be an anomaly."""
    numbers: Numbers
    """Those of final reads are as in an ordinary run."""
    without_offset: Longs
    replicas: tuple[LoggedReplica, ...]


def judged(summaries: Sequence[ChunkSummary], samples: Sequence[Path], facts: RunFacts) -> Answers | None:
    """Judge the summaries of all chunks; None if rows are malformed, or of other runs, or there twice.

    `samples`: files of the table `cluster`.
    """
    if not all(each.ordinary for each in summaries):
        return None
    tables = {
        name: pa.concat_tables([each.tables[name] for each in summaries if each.tables]) for name in SUMMARY_TABLES
    }
    try:
        tables["cluster"] = read_parts(samples, TABLES["cluster"])
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return None
    history = loaded(tables, facts)
    if not history.whole or any(runs.size for runs in malformed(history)):
        return None
    numbers = Tally.sum(each.tally for each in summaries).result(facts)
    numbers |= {name: number for _, name, number in rows_in(history) if name == ("rows", "cluster", None, None)}
    numbers |= {name: number for _, name, number in final_reads_in(history)}
    without_offset = [each.without_offset for each in summaries if each.without_offset is not None]
    return Answers(
        ordinary=not any(runs.size for suspects in _SUSPECTS for runs in suspects(history)),
        numbers=numbers,
        without_offset=np.unique(widened(without_offset)),
        replicas=tuple(replica for each in summaries for replica in each.replicas),
    )
