"""Assigns replicas to brokers: initial placement, and the fewest moves when brokers are added (§15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

Assignment = tuple[int, ...]


def place(
    brokers: Sequence[tuple[int, str | None]], partitions: int, factor: int, first: int = 0
) -> list[tuple[int, Assignment]]:
    """(partition, replicas) for new partitions over brokers, given as (id, rack) in the order of preference.

    The i-th partition leads on the (i mod n)-th broker. The other replicas of the k-th partition that leads there begin
    k positions further along, so that a failed broker's load falls on all the others and not on one neighbour.

    ```
    n = 4, factor 2     p0: 0 1   p1: 1 2   p2: 2 3   p3: 3 0     (k = 0)
                        p4: 0 2   p5: 1 3   p6: 2 0   p7: 3 1     (k = 1)
    ```

    Replicas of a partition are in different racks as long as there are racks without one. `first` is the number of
    partitions placed before.
    """
    ordered = _alternating_racks(brokers)
    return [(number, _replicas(ordered, factor, first + number)) for number in range(partitions)]


def _alternating_racks(brokers: Sequence[tuple[int, str | None]]) -> list[tuple[int, str | None]]:
    """Order brokers so that neighbours are in different racks, where possible."""
    racks: dict[str | None, list[tuple[int, str | None]]] = {}
    for broker in brokers:
        racks.setdefault(broker[1], []).append(broker)
    if len(racks) <= 1:
        return list(brokers)
    return [broker for broker in chain.from_iterable(zip_longest(*racks.values())) if broker is not None]


def _replicas(brokers: list[tuple[int, str | None]], factor: int, index: int) -> Assignment:
    count = len(brokers)
    leader = index % count
    shift = index // count
    chosen = [brokers[leader]]
    candidates = [brokers[(leader + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
    while len(chosen) < factor:
        racks = {rack for _, rack in chosen}
        fresh = [broker for broker in candidates if broker[1] not in racks]
        taken = (fresh or candidates)[0]
        candidates.remove(taken)
        chosen.append(taken)
    return tuple(broker for broker, _ in chosen)


def spread(
    assignments: Mapping[tuple[str, int], Assignment], brokers: Sequence[int]
) -> dict[tuple[str, int], Assignment]:
    """New assignments that balance the number of replicas over `brokers` with as few moves as possible.

    Replicas move only from brokers that hold more than their share to those that hold less.
    """
    load = dict.fromkeys(sorted(brokers), 0)
    for replicas in assignments.values():
        for replica in replicas:
            load[replica] = load.get(replica, 0) + 1
    moved: dict[tuple[str, int], Assignment] = {}
    for key in sorted(assignments):
        replicas = assignments[key]
        for index in range(len(replicas) - 1, -1, -1):
            source = replicas[index]
            targets = [broker for broker in sorted(brokers) if broker not in replicas]
            if not targets:
                break
            target = min(targets, key=lambda broker: load[broker])
            if source in brokers and load[source] - load[target] < 2:
                continue
            replicas = (*replicas[:index], target, *replicas[index + 1 :])
            load[source] -= 1
            load[target] += 1
        if replicas != assignments[key]:
            moved[key] = replicas
    return moved
