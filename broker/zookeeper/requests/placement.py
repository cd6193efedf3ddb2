"""Places the replicas of a new topic on brokers, by the formula of the first design."""

from __future__ import annotations

from collections.abc import Sequence


def place(brokers: Sequence[int], partitions: int, factor: int) -> list[tuple[int, ...]]:
    """The replicas of each partition, the preferred one first; `brokers` are at least `factor`.

    The first replica of partition i is on broker i mod n. Of the partitions whose first replica is on broker i, the
    k-th has replica j on broker (i + j + k) mod n; where the formula meets a broker that has one, the next free one is
    taken (the text forbids two replicas on one broker, and its formula allows them).
    """
    ordered = sorted(brokers)
    n = len(ordered)
    placed = []
    for number in range(partitions):
        first, k = number % n, number // n
        chosen = [first]
        for j in range(1, factor):
            at = (first + j + k) % n
            while at in chosen:
                at = (at + 1) % n
            chosen.append(at)
        placed.append(tuple(ordered[at] for at in chosen))
    return placed
