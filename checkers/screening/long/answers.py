"""Judges the polls and samples of some partitions of a long run in one task, from the summaries of its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from checkers.input.run_facts import RunFacts
from checkers.screening.columns import Flags, Longs, plain, read_parts
from checkers.screening.long.blocks import Layout, widened
from checkers.screening.long.reading import loaded
from checkers.screening.long.summary import SUMMARY_TABLES, ChunkSummary, LoggedReplica
from checkers.screening.long.tally import Tally
from checkers.screening.ordinary.answers import suspect_polls, two_leaders
from checkers.screening.ordinary.availability import unavailable
from checkers.screening.ordinary.counting import Numbers, final_reads_in
from checkers.screening.ordinary.records import malformed
from history.schema import TABLES

_SUSPECTS: Final = (suspect_polls, two_leaders, unavailable)


@dataclass(frozen=True)
class Answers:
    """What the polls and samples of a share show, and numbers: those of the run are in the first share."""

    shares: int
    """How many there are."""
    ordinary: bool
    """Whether they show nothing that could be an anomaly."""
    numbers: Numbers
    """Those of final reads are as in an ordinary run."""
    without_offset: Longs
    replicas: tuple[LoggedReplica, ...]


def judged(
    summaries: Sequence[ChunkSummary], samples: Sequence[Path], facts: RunFacts, layout: Layout
) -> Answers | None:
    """Judge the summaries of a share of all chunks; None if rows are malformed, or of other runs, or there twice.

    `samples`: files of the table `cluster`.
    """
    if not all(each.ordinary for each in summaries):
        return None
    tables = {
        name: pa.concat_tables([each.tables[name] for each in summaries if each.tables]) for name in SUMMARY_TABLES
    }
    try:
        cluster = read_parts(samples, TABLES["cluster"])
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return None
    share = summaries[0].share
    tables["cluster"] = cluster.filter(pa.array(_of_share(cluster, share, layout)))
    ends = tuple(end for end in facts.ends if layout.share_of((end.topic, end.partition)) == share)
    history = loaded(tables, replace(facts, ends=ends))
    if not history.whole or any(runs.size for runs in malformed(history)):
        return None
    numbers = Tally.sum(each.tally for each in summaries).result(facts)
    if cluster.num_rows and share == 0:
        numbers["rows", "cluster", None, None] = cluster.num_rows
    numbers |= {name: number for _, name, number in final_reads_in(history)}
    without_offset = [each.without_offset for each in summaries if each.without_offset is not None]
    return Answers(
        shares=layout.shares,
        ordinary=not any(runs.size for suspects in _SUSPECTS for runs in suspects(history)),
        numbers=numbers,
        without_offset=np.unique(widened(without_offset)),
        replicas=tuple(replica for each in summaries for replica in each.replicas),
    )


def _of_share(cluster: pa.Table, share: int, layout: Layout) -> Flags:
    places = plain(cluster.select(["topic", "partition"])).to_pydict()
    shares: dict[tuple[str | None, int | None], int] = {}
    return np.array(
        [
            shares.setdefault(place, layout.share_of(place)) == share
            for place in zip(places["topic"], places["partition"], strict=True)
        ],
        np.bool_,
    )
