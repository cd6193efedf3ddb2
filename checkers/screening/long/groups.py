"""Screens the blocks of one task: the rows of each group, the order of its answers, and values that were sent twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.screening import stretches
from checkers.screening.columns import Flags, Longs
from checkers.screening.long.blocks import ASKED, LOG, READ, SENT, Block, GroupKey, Values, widened
from checkers.screening.long.reading import NOT_HAPPENED
from checkers.screening.stretches import NO_EPOCH, Rows, ScreeningNote

NEVER_NS: Final = np.iinfo(np.int64).max
_KERNEL_KINDS: Final = {SENT: stretches.SEND, READ: stretches.READ, LOG: stretches.LOG}

Ordered = tuple[int, int, int]
"""Offset of a send, when it began, and when it was acknowledged."""


@dataclass(frozen=True)
class Order:
    """What a group tells of the order of answers in its partition (`checkers.screening.exclusions.disorders`)."""

    disorder: bool
    """Whether an answer contradicts an earlier one within the group."""
    answered_ns: int
    """When the first of its sends was acknowledged."""
    invoked_ns: int
    """When the last of its sends and questions began."""


@dataclass(frozen=True)
class ScreenedGroup:
    """What a group tells; the notes have no partition key yet."""

    key: GroupKey
    notes: tuple[ScreeningNote, ...]
    order: Order


class Blocks:
    """The blocks of some groups, by group and kind."""

    def __init__(self) -> None:
        self._columns: dict[GroupKey, dict[int, list[Block]]] = {}

    def add(self, block: Block) -> None:
        """Add a block."""
        self._columns.setdefault(block.key, {}).setdefault(block.kind, []).append(block)

    @property
    def keys(self) -> Sequence[GroupKey]:
        """The groups."""
        return list(self._columns)

    def rows(self, key: GroupKey, kind: int) -> Rows | None:
        """Return the rows of a kind in a group, None if there are none."""
        blocks = self._columns[key].get(kind, ())
        if not blocks:
            return None
        return {name: widened([block.columns[name] for block in blocks]) for name in blocks[0].columns}

    def screened(self, key: GroupKey) -> ScreenedGroup:
        """Screen a group."""
        together: dict[str, list[Longs]] = {}
        for kind, kernel_kind in _KERNEL_KINDS.items():
            rows = self.rows(key, kind)
            if rows is not None:
                for name, column in _for_kernel(rows, kernel_kind).items():
                    together.setdefault(name, []).append(column)
        whole = {name: np.concatenate(some) for name, some in together.items()}
        return ScreenedGroup(key, tuple(stretches.screen(whole)) if whole else (), self.order(key))

    def order(self, key: GroupKey, resolved: Sequence[Ordered] = ()) -> Order:
        """Return the order of answers in a group, in which some sends of unknown outcome have happened."""
        sent, asked = self.rows(key, SENT), self.rows(key, ASKED)
        parts = [np.array(resolved, np.int64).reshape(-1, 3).T]
        if sent is not None:
            happened = sent["completed_ns"] != NOT_HAPPENED
            parts.append(np.stack([sent[name][happened] for name in ("offset", "invoked_ns", "completed_ns")]))
        number = sum(part.shape[1] for part in parts)
        if asked is not None:
            never = np.full(asked["offset"].size, NEVER_NS)
            parts.append(np.stack([asked["offset"], asked["invoked_ns"], never]))
        offset, invoked, completed = np.concatenate(parts, axis=1)
        return _order(offset, np.arange(offset.size) >= number, invoked, completed)


def _order(offset: Longs, is_question: Flags, invoked: Longs, completed: Longs) -> Order:
    falling = np.lexsort((is_question, -offset))
    answered = np.minimum.accumulate(completed[falling])[:-1]
    return Order(
        disorder=bool((answered <= invoked[falling][1:]).any()),
        answered_ns=int(completed.min(initial=NEVER_NS)),
        invoked_ns=int(invoked.max(initial=-1)),
    )


def in_disorder(orders: Mapping[int, Order]) -> bool:
    """Say whether an answer in a partition contradicts an earlier one. `orders`: by the number of the group."""
    answered_ns = NEVER_NS
    for group in sorted(orders, reverse=True):
        order = orders[group]
        if order.disorder or answered_ns <= order.invoked_ns:
            return True
        answered_ns = min(answered_ns, order.answered_ns)
    return False


def any_twice(values: Iterable[Values]) -> bool:
    """Say whether a value is there twice."""
    together = np.sort(widened([each.values for each in values]))
    return bool((together[1:] == together[:-1]).any())


def _for_kernel(rows: Rows, kind: int) -> Rows:
    size = rows["offset"].size
    nothing = np.zeros(size, np.int64)
    detail = rows.get("op", nothing)
    return {
        "partition_key": nothing,
        "kind": np.full(size, kind, np.int64),
        "epoch": rows["epoch"] if "epoch" in rows else np.full(size, NO_EPOCH, np.int64),
        "op": detail,
        "crc": detail,
        "broker": rows.get("broker", nothing),
        **{name: rows[name] for name in ("offset", "value", "marks")},
    }
