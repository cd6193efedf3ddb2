"""Screens a long run, in Spark jobs whose tasks read files and exchange blocks: all is ordinary, or some suspect."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD, SparkContext

from checkers.input.run_facts import RunFacts
from checkers.input.tables import RunFiles
from checkers.screening import stretches
from checkers.screening.columns import Longs, numbers, plain
from checkers.screening.long.answers import Answers, judged
from checkers.screening.long.blocks import GROUP_BITS, Block, GroupKey, Layout, Place, Values
from checkers.screening.long.chunks import ClientChunk, LogChunk, client_chunks, log_chunks
from checkers.screening.long.groups import Blocks, Order, Ordered, ScreenedGroup, any_twice, in_disorder
from checkers.screening.long.reading import Item, loaded, read_chunk
from checkers.screening.long.summary import ChunkSummary, LoggedReplica
from checkers.screening.ordinary.counting import Numbers, OrdinaryRun
from checkers.screening.ordinary.loaded import LoadedHistory
from checkers.screening.ordinary.records import of_values
from checkers.screening.ordinary.resolved import ResolvedSend, resolved_sends
from checkers.screening.stretches import VALUES_OF_A_PARTITION_MAX, ScreeningNote, suspicion_of

ROWS_OF_A_TASK: Final = 1_000_000
"""Of those that lie at offsets."""
POLLS_OF_A_TASK: Final = 500_000
BYTES_OF_A_POLL: Final = 650
"""What a task that judges polls takes for each of them."""
_AT_OFFSETS: Final = ("sends", "reads", "logs")

Screened = ScreenedGroup | Answers | None
"""What a task that screens finds, group by group; None: the run is not ordinary."""
Resolved = Mapping[GroupKey, Sequence[Ordered]]
Chunk = ClientChunk | LogChunk


@dataclass(frozen=True)
class SuspectRun:
    """What the files of a long run show that is not ordinary, and that need not be screened again."""

    numbers: Numbers
    """All but those of final reads."""
    notes: tuple[tuple[Place, ScreeningNote], ...]
    """Notes of the kernel, each with its partition instead of a partition key."""
    replicas: tuple[LoggedReplica, ...]
    """One for each replica with a dumped log."""
    answers_ordinary: bool
    """Whether polls and samples show nothing that could be an anomaly."""
    in_order: bool
    """Whether no answer contradicts an earlier one (`checkers.screening.exclusions.disorders`)."""


class Engine(Protocol):
    """Runs the tasks of one run."""

    def screened(self) -> Iterable[Screened]:
        """Read all chunks, exchange their blocks, and screen them."""

    def orders(self, resolved: Resolved) -> Iterable[tuple[GroupKey, Order]]:
        """Order the answers of some groups again, in which sends of unknown outcome have happened."""

    def rows_of_values(self, values: Longs) -> Iterable[Mapping[str, pa.Table]]:
        """Read the sends and reads of some values, with their operations."""


@dataclass(frozen=True)
class Work:
    """What tasks need of a run."""

    chunks: Sequence[Chunk]
    facts: RunFacts
    layout: Layout
    samples: Sequence[Path]


def work_on(run: RunFiles, facts: RunFacts, cores: int) -> Work | None:
    """Plan the tasks of a run; None if its files cannot be divided, or one partition has too many polls for a task."""
    ends = {(end.topic, end.partition): end.offset for end in facts.ends}
    polls = run.large["polls"].rows
    rows = sum(run.large[table].rows for table in _AT_OFFSETS)
    shares = max(1, min(len(ends), -(-polls // POLLS_OF_A_TASK)))
    layout = Layout.of(ends, max(cores, -(-rows // ROWS_OF_A_TASK)), shares)
    if polls * _largest_share(ends, layout) * BYTES_OF_A_POLL > memory_bytes() // 2:
        return None
    try:
        of_clients, of_logs = client_chunks(run), log_chunks(run)
    except (OSError, pa.ArrowException):
        return None
    if of_clients is None:
        return None
    return Work([*of_clients, *of_logs], facts, layout, run.large["cluster"].files)


def _largest_share(ends: Mapping[Place, int], layout: Layout) -> float:
    """Return how much of all records are in the partitions of the largest share, as are the polls, more or less."""
    of_shares = [0] * layout.shares
    for place, end in ends.items():
        of_shares[layout.share_of(place)] += end
    return max(of_shares) / max(1, sum(of_shares)) or 1.0


def memory_bytes() -> int:
    """Return the memory of this machine, which stands for that of the workers of a cluster, too."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class SparkEngine:
    """Runs the tasks on Spark."""

    def __init__(self, context: SparkContext, work: Work) -> None:
        self._context, self._work = context, work
        read = partial(read_chunk, facts=work.facts, layout=work.layout)
        self._exchanged: RDD[tuple[int, Item]] = (
            context.parallelize(work.chunks, max(1, len(work.chunks)))
            .flatMap(read)
            .partitionBy(work.layout.tasks + work.layout.shares, int)
        )

    def screened(self) -> Iterable[Screened]:
        """See `Engine`."""
        task = partial(screen_task, facts=self._work.facts, samples=self._work.samples, layout=self._work.layout)
        found: list[Screened] = self._exchanged.mapPartitions(task).collect()
        return found

    def orders(self, resolved: Resolved) -> Iterable[tuple[GroupKey, Order]]:
        """See `Engine`. What was exchanged is read again, and no chunk."""
        tasks = sorted({self._work.layout.task_of(key) for key in resolved})
        found: list[tuple[GroupKey, Order]] = self._context.runJob(
            self._exchanged, partial(order_task, resolved=resolved), tasks
        )
        return found

    def rows_of_values(self, values: Longs) -> Iterable[Mapping[str, pa.Table]]:
        """See `Engine`."""
        chunks = [chunk for chunk in self._work.chunks if isinstance(chunk, ClientChunk)]
        tasks = self._context.parallelize(chunks, max(1, len(chunks)))
        found: list[Mapping[str, pa.Table]] = tasks.flatMap(partial(rows_of_values, values=values)).collect()
        return found


def screen_task(
    items: Iterable[tuple[int, Item]], facts: RunFacts, samples: Sequence[Path], layout: Layout
) -> Iterator[Screened]:
    """Screen what one task gets."""
    blocks, values, summaries = Blocks(), list[Values](), list[ChunkSummary]()
    for _, item in items:
        if isinstance(item, Block):
            blocks.add(item)
        elif isinstance(item, Values):
            values.append(item)
        else:
            summaries.append(item)
    if any_twice(values):
        yield None
    for key in blocks.keys:
        yield blocks.screened(key)
    if summaries:
        yield judged(summaries, samples, facts, layout)


def order_task(items: Iterable[tuple[int, Item]], resolved: Resolved) -> Iterator[tuple[GroupKey, Order]]:
    """Order the answers of the groups in which there are resolved sends."""
    blocks = Blocks()
    for _, item in items:
        if isinstance(item, Block) and item.key in resolved:
            blocks.add(item)
    for key in blocks.keys:
        yield key, blocks.order(key, resolved[key])


def rows_of_values(chunk: ClientChunk, values: Longs) -> Iterator[Mapping[str, pa.Table]]:
    """Yield the sends and reads of some values in a chunk, with their operations; nothing if there are none."""
    pa.set_cpu_count(1)
    wanted = pa.array(values)
    tables = {}
    for name in ("sends", "reads"):
        table = chunk.read(name)
        tables[name] = table.filter(pc.is_in(table.column("value"), value_set=wanted))
    if any(table.num_rows for table in tables.values()):
        operations = chunk.read("operations")
        of_them = np.concatenate([numbers(table, "op") for table in tables.values()])
        tables["operations"] = operations.filter(pa.array(np.isin(numbers(operations, "op"), of_them)))
        yield {name: plain(table) for name, table in tables.items()}


def recognised(engine: Engine, facts: RunFacts) -> OrdinaryRun | SuspectRun | None:
    """Screen a run. None if some of it cannot be read, is malformed or there twice, or too many values are suspect."""
    found = list(engine.screened())
    answers = _together_answered([each for each in found if isinstance(each, Answers)])
    if answers is None or None in found or answers.without_offset.size > VALUES_OF_A_PARTITION_MAX:
        return None
    groups = [each for each in found if isinstance(each, ScreenedGroup)]
    replicas = _whole_replicas(answers.replicas)
    notes = [(each.key[0], note) for each in groups for note in each.notes]
    notes += [
        (each.place, ScreeningNote(stretches.WATERMARK, 0, a=each.broker, b=each.low, c=each.high)) for each in replicas
    ]
    suspicion = suspicion_of(_numbered(notes))
    suspects = np.union1d(answers.without_offset, np.array([value for _, value in suspicion.values], np.int64))
    resolved: tuple[ResolvedSend, ...] = ()
    odd = False
    if suspects.size:
        history = loaded(_together(engine.rows_of_values(suspects)), facts)
        odd = bool(of_values(history, suspects).size)
        resolved = tuple(resolved_sends(history).chosen(0, history))
        notes += _without_offset(history, answers.without_offset)
    orders = {each.key: each.order for each in groups}
    if resolved:
        orders |= dict(engine.orders(_by_group(resolved)))
    of_places: dict[Place, dict[int, Order]] = {}
    for (place, group), order in orders.items():
        of_places.setdefault(place, {})[group] = order
    in_order = not any(in_disorder(of_place) for of_place in of_places.values())
    if answers.ordinary and in_order and not odd and not suspicion.partition_keys:
        return OrdinaryRun(answers.numbers, resolved)
    numbers = {name: number for name, number in answers.numbers.items() if name[0] != "final"}
    return SuspectRun(numbers, tuple(notes), replicas, answers.ordinary, in_order)


def _together_answered(shares: Sequence[Answers]) -> Answers | None:
    """Put together what all shares show; None if one is missing."""
    if not shares or len(shares) < shares[0].shares:
        return None
    return Answers(
        shares=1,
        ordinary=all(each.ordinary for each in shares),
        numbers={name: number for each in shares for name, number in each.numbers.items()},
        without_offset=np.unique(np.concatenate([each.without_offset for each in shares])),
        replicas=tuple(replica for each in shares for replica in each.replicas),
    )


def _whole_replicas(parts: Iterable[LoggedReplica]) -> tuple[LoggedReplica, ...]:
    """Put together what the chunks of logs tell of each replica."""
    whole: dict[tuple[Place, int], LoggedReplica] = {}
    for part in parts:
        known = whole.setdefault((part.place, part.broker), replace(part, rows=0))
        whole[part.place, part.broker] = replace(
            part, low=min(known.low, part.low), high=max(known.high, part.high), rows=known.rows + part.rows
        )
    return tuple(whole.values())


def _numbered(notes: Iterable[tuple[Place, ScreeningNote]]) -> pa.Table:
    places: dict[Place, int] = {}
    numbered = [note._replace(partition_key=places.setdefault(place, len(places))) for place, note in notes]
    return pa.Table.from_batches([stretches.batch_of(numbered)])


def _without_offset(history: LoadedHistory, values: Longs) -> Iterator[tuple[Place, ScreeningNote]]:
    """Note the values that were sent without a known offset, at which no group has them."""
    sends = history.tables["sends"]
    chosen = sends.filter(pa.array(np.isin(numbers(sends, "value"), values)))
    columns = (plain(chosen).column(name).to_pylist() for name in ("topic", "partition", "value"))
    for topic, partition, value in zip(*columns, strict=True):
        yield (topic, partition), ScreeningNote(stretches.SUSPECT_VALUE, 0, a=value)


def _together(rows: Iterable[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    every = list(rows)
    names: Collection[str] = every[0] if every else ()
    return {name: pa.concat_tables([each[name] for each in every]) for name in names}


def _by_group(resolved: Iterable[Mapping[str, Any]]) -> Resolved:
    groups: dict[GroupKey, list[Ordered]] = {}
    for send in resolved:
        key = (send["topic"], send["partition"]), send["offset"] >> GROUP_BITS
        groups.setdefault(key, []).append((send["offset"], send["invoked_ns"], send["completed_ns"]))
    return groups
