"""Finds runs in which polls, queries for the end or samples are not as in a run without anomalies.

Each function yields the runs that it suspects. What it computes row by row, and why, is said where frames do the same:
`checkers.input.polls`, `checkers.input.validation`, `checkers.screening.exclusions` and `checkers.anomalies`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pyarrow as pa

from checkers.screening.columns import Flags, Groups, Longs, among, distinct, known, numbers
from checkers.screening.ordinary.loaded import LoadedHistory, last_in_groups, spans
from checkers.screening.ordinary.resolved import resolved_sends

_GREATEST = np.iinfo(np.int64).max


class Polls:
    """Polls with what they returned, one element each."""

    def __init__(self, history: LoadedHistory) -> None:
        polls, of_polls_returned = history.tables["polls"], history.returned
        returned = of_polls_returned.table
        number, _ = distinct(
            np.concatenate([history.op["polls"], of_polls_returned.op]),
            np.concatenate([history.partition["polls"], of_polls_returned.partition]),
        )
        of_polls, of_returned = number[: polls.num_rows], number[polls.num_rows :]
        size = int(number.max(initial=-1)) + 1

        def looked_up(values: Longs) -> Longs:
            by_number = np.zeros(size, np.int64)
            by_number[of_returned] = values
            return by_number[of_polls]

        self.twice = np.bincount(of_polls, minlength=size)[of_polls] > 1 if of_polls.size else np.zeros(0, np.bool_)
        self.returned = looked_up(numbers(returned, "returned"))
        self.first_offset = looked_up(numbers(returned, "first_offset"))
        self.last_offset = looked_up(numbers(returned, "last_offset"))
        self.level = looked_up(np.asarray(returned.column("level").fill_null(False).to_numpy(), np.int64)) == 1
        self.is_poll, self.is_latest = history.kind("polls", "poll"), history.kind("polls", "latest")
        self.ok = history.status("polls", "ok")
        self.assigned = np.asarray(polls.column("assigned").fill_null(False).to_numpy(), np.bool_)
        self.process = history.of_operation("polls", "process")
        self.invoked, self.completed = (history.of_operation("polls", name) for name in ("invoked_ns", "completed_ns"))
        listed = np.zeros(size, np.bool_)
        listed[of_polls[self.is_poll]] = True
        unlisted = (numbers(returned, "returned") > 0) & ~listed[of_returned]
        self.of_unlisted = of_polls_returned.run[unlisted]


def suspect_polls(history: LoadedHistory) -> Iterator[Longs]:
    """Yield runs with malformed polls, uneven paths of readers, answers out of order, or uncommitted reads."""
    polls = Polls(history)
    run, table = history.run["polls"], history.tables["polls"]
    yield polls.of_unlisted
    yield run[_malformed(table, polls)]
    yield run[_uneven(history, polls)]
    yield from _out_of_order(history, polls)
    yield from _falling_ends(history, polls)
    yield from _uncommitted(history, polls)


def _malformed(table: pa.Table, polls: Polls) -> Flags:
    position, end = (numbers(table, name) for name in ("position", "next_position"))
    bad = ~known(table, "topic", "partition") | ~(polls.is_poll | polls.is_latest) | polls.twice
    bad |= (position < 0) | (end < 0) | (numbers(table, "high_watermark") < 0)
    bad |= polls.ok & (~known(table, "next_position") | (polls.is_poll & ~known(table, "position")))
    of_records = polls.ok & polls.is_poll
    bad |= of_records & (end < position)
    bad |= of_records & (numbers(table, "records", -1) != polls.returned)
    return np.asarray(bad, np.bool_)


def _uneven(history: LoadedHistory, polls: Polls) -> Flags:
    table = history.tables["polls"]
    op = numbers(table, "op")
    path, _ = distinct(history.partition["polls"], polls.process, polls.is_poll.astype(np.int64))
    order = np.lexsort((op, polls.invoked, path))
    order = order[polls.is_poll[order]]
    broken = (~polls.ok[order]).astype(np.int64)
    begins = np.where(polls.assigned[order], 1, broken)
    leg = np.zeros(table.num_rows, np.int64)
    leg[order] = np.cumsum(begins) + np.cumsum(broken) - broken
    has_records = polls.returned > 0
    before = last_in_groups(order, path, has_records)
    jumped = (before >= 0) & (leg[before] == leg[order])
    jumped &= polls.last_offset[before] + 1 != polls.first_offset[order]
    position, placed = numbers(table, "position"), known(table, "position")
    reached = np.where(known(table, "next_position"), numbers(table, "next_position"), position)
    at = last_in_groups(order, path, placed)
    back = (at >= 0) & placed[order] & (position[order] < reached[at]) & ~polls.assigned[order]
    uneven = np.zeros(table.num_rows, np.bool_)
    uneven[order] = (has_records[order] & (~polls.level[order] | jumped)) | back
    return uneven


def _out_of_order(history: LoadedHistory, polls: Polls) -> Iterator[Longs]:
    """Yield runs with a disorder (`checkers.screening.exclusions.disorders`)."""
    sends = history.tables["sends"]
    happened = (
        history.status("sends", "ok") & known(sends, "offset") & history.known_of_operation("sends", "completed_ns")
    )
    asked, shown = asked_for_end(history, polls)
    resolved = resolved_sends(history)
    sent = np.concatenate([np.flatnonzero(happened), resolved.rows])
    partition = np.concatenate([history.partition["sends"][sent], history.partition["polls"][asked]])
    offset = np.concatenate([numbers(sends, "offset")[happened], resolved.offset, shown[asked]])
    turn = np.repeat([0, 1], [sent.size, int(asked.sum())])
    invoked = np.concatenate([history.of_operation("sends", "invoked_ns")[sent], polls.invoked[asked]])
    answers = history.of_operation("sends", "completed_ns")[happened]
    completed = np.concatenate([answers, resolved.completed_ns, np.full(int(asked.sum()), _GREATEST)])
    order = np.lexsort((turn, -offset, partition))
    for number, rows in spans(partition[order]):
        of_one = order[rows]
        answered = np.minimum.accumulate(completed[of_one])[:-1]
        if (answered <= invoked[of_one][1:]).any():
            yield history.run_of_partition[[number]]


def asked_for_end(history: LoadedHistory, polls: Polls) -> tuple[Flags, Longs]:
    """Say which answers tell that there is no record at an offset or above, and return that offset of each."""
    table = history.tables["polls"]
    asked = polls.ok & (polls.is_latest | (known(table, "records") & (numbers(table, "records") == 0)))
    return asked, np.where(polls.is_latest, numbers(table, "next_position"), numbers(table, "position"))


def _falling_ends(history: LoadedHistory, polls: Polls) -> Iterator[Longs]:
    """Yield runs with an end offset below one that had been answered before it was asked for."""
    table = history.tables["polls"]
    end = np.where(polls.is_latest, numbers(table, "next_position"), numbers(table, "high_watermark"))
    shown = polls.ok & np.where(polls.is_latest, known(table, "next_position"), known(table, "high_watermark"))
    chosen = np.flatnonzero(shown)
    order = chosen[np.lexsort((polls.completed[chosen], history.partition["polls"][chosen]))]
    for number, rows in spans(history.partition["polls"][order]):
        of_one = order[rows]
        highest = np.maximum.accumulate(end[of_one])
        answered = np.searchsorted(polls.completed[of_one], polls.invoked[of_one], "left")
        later = answered > 0
        if (highest[answered[later] - 1] > end[of_one][later]).any():
            yield history.run_of_partition[[number]]


def _uncommitted(history: LoadedHistory, polls: Polls) -> Iterator[Longs]:
    """Yield runs with a poll after which its broker, leader all the while, showed a lower high watermark.

    And runs in which a replica was sampled twice at one moment: which of the two comes first is not known.
    """
    cluster = history.tables["cluster"]
    at, broker, partition = numbers(cluster, "at_ns"), numbers(cluster, "broker"), history.partition["cluster"]
    replica, _ = distinct(partition, broker)
    order = np.lexsort((at, replica))
    previous = last_in_groups(order, replica, np.ones(at.size, np.bool_))
    again = (previous >= 0) & (at[previous] == at[order])
    yield history.run["cluster"][order[again]]
    shown = np.zeros(at.size, np.int64)
    shown[order] = np.where(previous >= 0, at[previous], -1)
    leads = among(cluster, "role", "leader") & known(cluster, "leader_epoch")
    leaders = np.flatnonzero(leads)
    epoch, _ = distinct(replica[leaders], numbers(cluster, "leader_epoch")[leaders])
    since = np.zeros(at.size, np.int64)
    since[leaders] = Groups(epoch).least(at[leaders], np.ones(leaders.size, np.bool_))[epoch]
    sampled = np.flatnonzero(leads & (shown >= 0) & known(cluster, "high_watermark"))
    sampled = sampled[np.lexsort((shown[sampled], broker[sampled], partition[sampled]))]
    watermark = numbers(cluster, "high_watermark")
    answered = history.known_of_operation("polls", "node") & history.known_of_operation("polls", "completed_ns")
    asked = np.flatnonzero(answered & (polls.returned > 0))
    node = history.of_operation("polls", "node")[asked]
    of_samples, _ = distinct(
        np.concatenate([partition[sampled], history.partition["polls"][asked]]),
        np.concatenate([broker[sampled], node]),
    )
    here = {number: sampled[rows] for number, rows in spans(of_samples[: sampled.size])}
    of_polls = of_samples[sampled.size :]
    by_leader = np.argsort(of_polls, kind="stable")
    for number, rows in spans(of_polls[by_leader]):
        samples, mine = here.get(number), asked[by_leader[rows]]
        if samples is None:
            continue
        sides: tuple[Literal["left", "right"], ...] = ("left", "right")
        for side in sides:  # of a sample at the very moment either order is possible
            following = np.searchsorted(shown[samples], polls.completed[mine], side)
            some = following < samples.size
            after, poll = samples[following[some]], mine[some]
            if ((since[after] <= polls.invoked[poll]) & (watermark[after] <= polls.last_offset[poll])).any():
                yield history.run["polls"][mine[:1]]


def two_leaders(history: LoadedHistory) -> Iterator[Longs]:
    """Yield runs with samples of two brokers that led in one epoch."""
    cluster = history.tables["cluster"]
    leads = np.flatnonzero(among(cluster, "role", "leader") & known(cluster, "leader_epoch"))
    epoch, examples = distinct(history.partition["cluster"][leads], numbers(cluster, "leader_epoch")[leads])
    groups, broker = Groups(epoch), numbers(cluster, "broker")[leads]
    every = np.ones(leads.size, np.bool_)
    differ = groups.least(broker, every) != groups.greatest(broker, every)
    yield history.run["cluster"][leads][examples][differ]
