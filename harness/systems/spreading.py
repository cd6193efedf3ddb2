"""Moves partitions onto brokers that were added, as few as balance the cluster, as a client process.

`python -m harness.systems.spreading CONFIG` with the configuration as JSON: `{"bootstrap": […], "onto": [4, 5],
"timeout_s": 60}`. It prints a JSON line with what is planned, and one for each partition that has moved. Exit status 0
when all have; otherwise 1, and one line on standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from harness.systems.administration import REQUEST_TIMEOUT_MS, reassign

Partition = tuple[str, int]
"""Topic and number."""

AT_ONCE = 4
"""So many partitions move at the same time: half of what a queue of requests of `zk-v2` holds."""

_LOOK_S = 0.2


class Move(NamedTuple):
    """A partition that is to have other replicas, the preferred leader first."""

    partition: Partition
    before: tuple[int, ...]
    after: tuple[int, ...]


class NotSpread(Exception):
    """Not all partitions have moved; the text is one line."""


def moves(assigned: Mapping[Partition, tuple[int, ...]], brokers: Sequence[int], onto: Sequence[int]) -> list[Move]:
    """The fewest moves after which no broker has two replicas more than any of `onto`.

    Each takes a replica of the broker that has most, and gives it to the one of `onto` that has fewest; of a broker
    that is the preferred leader of more partitions it takes such a replica, if it can. A partition moves once for each
    replica that it gives away, all in one step.
    """
    now = dict(sorted(assigned.items()))
    replicas = Counter(dict.fromkeys(brokers, 0))
    led = Counter(dict.fromkeys(brokers, 0))
    for members in now.values():
        replicas.update(members)
        led[members[0]] += 1
    while True:
        taker = min(onto, key=lambda broker: (replicas[broker], broker))
        givers = [broker for broker in brokers if broker not in onto and replicas[broker] > replicas[taker] + 1]
        for giver in sorted(givers, key=lambda broker: (-replicas[broker], -led[broker], broker)):
            held = [one for one, members in now.items() if giver in members and taker not in members]
            if held:
                break
        else:
            return [Move(one, before, now[one]) for one, before in sorted(assigned.items()) if now[one] != before]
        takes_lead = led[giver] > led[taker] + 1
        chosen = min(held, key=lambda one: ((now[one][0] == giver) != takes_lead, now[one] != assigned[one], one))
        led[giver] -= now[chosen][0] == giver
        led[taker] += now[chosen][0] == giver
        replicas[giver] -= 1
        replicas[taker] += 1
        now[chosen] = tuple(taker if member == giver else member for member in now[chosen])


def spread(admin: KafkaAdminClient, onto: Sequence[int], timeout_s: float) -> None:
    """Plan the moves, request a few at a time, and wait for each. Raises `NotSpread`, `KafkaError`."""
    deadline = time.monotonic() + timeout_s
    brokers = _await_brokers(admin, onto, deadline)
    before = {one: replicas for one, (replicas, _) in _partitions(admin).items()}
    requested = _requested(admin)
    under_way = {one: Move(one, before[one], after) for one, after in requested.items()}
    planned = [move for move in moves(before | requested, brokers, onto) if move.partition not in under_way]
    _say({"planned": len(planned) + len(under_way), "of": len(before)})
    waiting = deque(planned)
    while waiting or under_way:
        while waiting and len(under_way) < AT_ONCE:
            move = waiting.popleft()
            _request(admin, move)
            under_way[move.partition] = move
        found = _partitions(admin)
        for move in list(under_way.values()):
            replicas, isr = found.get(move.partition, ((), frozenset()))
            if replicas == move.after and isr == set(replicas):
                del under_way[move.partition]
                _say({"moved": _name(move), "before": move.before, "after": move.after})
        if under_way and time.monotonic() > deadline:
            late = ", ".join(map(_name, under_way.values()))
            raise NotSpread(
                f"expected all partitions to have moved within {timeout_s:g} s, found that {late} have not and "
                f"{len(waiting)} were not begun; try again"
            )
        if under_way:
            time.sleep(_LOOK_S)


def _await_brokers(admin: KafkaAdminClient, onto: Sequence[int], deadline: float) -> list[int]:
    while True:
        brokers = sorted(broker["broker_id"] for broker in admin.describe_cluster()["brokers"])
        missing = [broker for broker in onto if broker not in brokers]
        if not missing:
            return brokers
        if time.monotonic() > deadline:
            raise NotSpread(f"expected brokers {_list(onto)} in the cluster, found none with id {_list(missing)}")
        time.sleep(_LOOK_S)


def _partitions(admin: KafkaAdminClient) -> dict[Partition, tuple[tuple[int, ...], frozenset[int]]]:
    """The replicas of each partition, in order, and those that are in sync."""
    topics: list[dict[str, Any]] = admin.describe_topics()
    return {
        (topic["name"], part["partition_index"]): (tuple(part["replica_nodes"]), frozenset(part["isr_nodes"]))
        for topic in topics
        for part in topic["partitions"]
    }


def _requested(admin: KafkaAdminClient) -> dict[Partition, tuple[int, ...]]:
    """What is being moved already, and to which replicas."""
    return {
        (key.topic, key.partition): tuple(one for one in found["replicas"] if one not in found["removing_replicas"])
        for key, found in admin.list_partition_reassignments().items()
    }


def _request(admin: KafkaAdminClient, move: Move) -> None:
    try:
        reassign(admin, *move.partition, move.after)
    except KafkaError as error:
        found = type(error).__name__
        raise NotSpread(f"expected to move {_name(move)} to {_list(move.after)}, found: {found}") from error


def _name(move: Move) -> str:
    return f"{move.partition[0]}-{move.partition[1]}"


def _list(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def _say(line: Mapping[str, object]) -> None:
    print(json.dumps(line), flush=True)


def main(arguments: Sequence[str]) -> int:
    """Spread the partitions."""
    config = json.loads(arguments[0])
    try:
        admin = KafkaAdminClient(bootstrap_servers=config["bootstrap"], request_timeout_ms=REQUEST_TIMEOUT_MS)
        try:
            spread(admin, config["onto"], config["timeout_s"])
        finally:
            admin.close()
    except (NotSpread, KafkaError) as error:
        of_client = f"expected the brokers to move partitions, found: {type(error).__name__}"
        print(error if isinstance(error, NotSpread) else of_client, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
