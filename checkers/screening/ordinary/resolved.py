"""Resolves sends of unknown outcome whose record was read, as `checkers.relations.records.resolved_sends` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checkers.input.frames import FOREVER
from checkers.screening.columns import Flags, Groups, Longs, distinct, known, numbers, plain
from checkers.screening.ordinary.loaded import LoadedHistory

ResolvedSend = Mapping[str, Any]
"""A send whose outcome is resolved: run_id, topic, partition, offset, value, op, process, node, status, invoked_ns,
completed_ns, read_op."""

NOBODY: Final = -1
"""Stands for a broker that is not known."""


@dataclass(frozen=True)
class Resolved:
    """Sends that are resolved, one element each."""

    rows: Longs
    """In the table `sends`."""
    offset: Longs
    completed_ns: Longs
    node: Longs
    """The first broker known to have served the record; `NOBODY` if none is."""
    read_op: Longs

    def chosen(self, run: int, history: LoadedHistory) -> list[ResolvedSend]:
        """Return those of one run."""
        mine = np.flatnonzero(history.run["sends"][self.rows] == run)
        rows = self.rows[mine]
        sends = plain(history.tables["sends"].select(["run_id", "topic", "partition", "value", "op"]))
        columns: dict[str, Sequence[Any]] = sends.take(pa.array(rows)).to_pydict()
        columns |= {
            "process": history.of_operation("sends", "process")[rows].tolist(),
            "invoked_ns": history.of_operation("sends", "invoked_ns")[rows].tolist(),
            "offset": self.offset[mine].tolist(),
            "completed_ns": self.completed_ns[mine].tolist(),
            "node": [None if node == NOBODY else node for node in self.node[mine].tolist()],
            "read_op": self.read_op[mine].tolist(),
        }
        return [
            {**dict(zip(columns, row, strict=True)), "status": "info"} for row in zip(*columns.values(), strict=True)
        ]


def resolved_sends(history: LoadedHistory) -> Resolved:
    """Resolve the sends of a history in which no value is at two offsets."""
    sends, reads = history.tables["sends"], history.tables["reads"]
    unanswered = np.flatnonzero(history.status("sends", "info") & known(sends, "value"))
    likely = np.isin(numbers(reads, "value"), numbers(sends, "value")[unanswered]) & known(reads, "value")
    read = np.flatnonzero(likely)
    number, _ = distinct(
        np.concatenate([history.partition["sends"][unanswered], history.partition["reads"][read]]),
        np.concatenate([numbers(sends, "value")[unanswered], numbers(reads, "value")[read]]),
    )
    groups, of_sends = Groups(number), number[: unanswered.size]
    no_send = np.zeros(unanswered.size, np.bool_)

    def of_reads(flags: Flags) -> Flags:
        return np.concatenate([no_send, flags[read]])

    def padded(values: Longs) -> Longs:
        return np.concatenate([no_send.astype(np.int64), values[read]])

    ok = history.status("reads", "ok")
    ended = history.known_of_operation("reads", "completed_ns")
    completed = history.of_operation("reads", "completed_ns")
    served = ok & ended & history.known_of_operation("reads", "node")
    first_ns = groups.least(padded(completed), of_reads(ok & ended))
    offset = groups.least(padded(numbers(reads, "offset")), of_reads(np.ones(reads.num_rows, np.bool_)))
    by_served = _first(number, padded(completed), of_reads(served))
    by_ended = _first(number, padded(np.where(ended, completed, FOREVER)), of_reads(np.ones(reads.num_rows, np.bool_)))
    node, op = padded(history.of_operation("reads", "node")), padded(numbers(reads, "op"))
    was_read = groups.count(of_reads(ok & ended)) > 0
    chosen = was_read[of_sends]
    of_chosen = of_sends[chosen]
    return Resolved(
        rows=unanswered[chosen],
        offset=offset[of_chosen],
        completed_ns=np.maximum(first_ns[of_chosen], history.of_operation("sends", "invoked_ns")[unanswered[chosen]]),
        node=np.where(by_served[of_chosen] >= 0, node[by_served[of_chosen]], NOBODY),
        read_op=op[by_ended[of_chosen]],
    )


def _first(number: Longs, moments: Longs, chosen: Flags) -> Longs:
    """Return, by group, the chosen row of the least moment; -1 if none is chosen."""
    rows = np.flatnonzero(chosen)
    rows = rows[np.lexsort((moments[rows], number[rows]))]
    first = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    first[number[rows[::-1]]] = rows[::-1]  # the last assignment counts
    return first
