"""Assembles events of Jepsen's Kafka workload, with micro-operations, into operations.

A send or poll is a transaction with one kind of micro-operation::

    EDN    [:send k v]  [:send k [offset v]]  [:poll]  [:poll {k [[offset v] …] …}]
    JSON   ["send", k, null, v]  ["send", k, offset, v]  ["poll", null]  ["poll", [[k, [[offset, v], …]], …]]
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from checkers.foreign.events import Event, Malformed, Rows, Value, event_of, frozen

TRANSACTIONS = frozenset({"send", "poll", "txn"})
SUBSCRIPTIONS = frozenset({"assign", "subscribe"})
OTHERS = frozenset({"crash", "debug", "debug-topic-partitions"})


class KafkaRecord(NamedTuple):
    """A record as an operation reports it."""

    key: Hashable
    """The partition."""
    offset: int | None
    value: Hashable


@dataclass(frozen=True, slots=True)
class KafkaOperation:
    """One operation. `invoked` and `completed` are positions in the history."""

    process: Hashable
    type: str
    f: str
    invoked: int
    completed: int
    sends: tuple[KafkaRecord, ...] = ()
    polls: tuple[KafkaRecord, ...] = ()
    named: frozenset[Hashable] = frozenset()
    """Partitions (or topics) that an assign or subscribe names."""
    rebalanced: frozenset[Hashable] = frozenset()
    invoked_ns: int | None = None
    completed_ns: int | None = None


class KafkaHistory(NamedTuple):
    """Operations in the order in which they completed; those that never completed are `info` and last."""

    operations: list[KafkaOperation]
    malformed: list[Malformed]


def is_kafka(event: Event) -> bool:
    """Return whether an event belongs to the Kafka workload."""
    if event.f in ("send", "poll", *SUBSCRIPTIONS):
        return True
    return event.f == "txn" and _kinds(event.value) <= {"send", "poll"} and bool(_kinds(event.value))


def kafka_history(events: Iterable[Event]) -> KafkaHistory:
    """Assemble events into operations. Never raises: malformed events are listed, and the rest is still used."""
    begun: dict[Hashable, Event] = {}
    operations: list[KafkaOperation] = []
    malformed: list[Malformed] = []
    last = 0
    for event in events:
        last = event.position + 1
        if event.f not in TRANSACTIONS | SUBSCRIPTIONS | OTHERS:
            malformed.append(Malformed(event.position + 1, f"no operation of a Kafka history: {event.f}"))
        elif event.type == "invoke":
            if event.process in begun:
                abandoned = begun[event.process]
                operations.append(_operation(abandoned, abandoned._replace(type="info"), malformed))
            begun[event.process] = event
        else:
            invocation = begun.pop(event.process, None)
            if invocation is not None and invocation.f != event.f:
                malformed.append(Malformed(event.position + 1, f"{invocation.f} was begun, and {event.f} completed"))
            operations.append(_operation(invocation or event, event, malformed))
    for invocation in begun.values():
        operations.append(_operation(invocation, invocation._replace(type="info", position=last), malformed))
    return KafkaHistory(operations, malformed)


def _operation(invocation: Event, completion: Event, malformed: list[Malformed]) -> KafkaOperation:
    value = invocation.value if completion.value is None else completion.value
    sends: list[KafkaRecord] = []
    polls: list[KafkaRecord] = []
    named: frozenset[Hashable] = frozenset()
    try:
        if completion.f in TRANSACTIONS:
            for micro in value or ():
                _add(micro, completion.type != "invoke", sends, polls)
        elif completion.f in SUBSCRIPTIONS:
            named = frozenset(frozen(key) for key in value or ())
    except (TypeError, ValueError, LookupError):
        malformed.append(Malformed(completion.position + 1, f"the value of a {completion.f} is none"))
    return KafkaOperation(
        completion.process,
        completion.type,
        completion.f,
        invocation.position,
        completion.position,
        tuple(sends),
        tuple(polls),
        named,
        invocation.rebalanced | completion.rebalanced,
        invocation.time,
        completion.time,
    )


def _add(micro: Value, completed: bool, sends: list[KafkaRecord], polls: list[KafkaRecord]) -> None:
    """Add the records of a micro-operation. Raises what indexing and unpacking raise if it is none."""
    kind, *rest = micro
    if kind == "send":
        if len(rest) == 3:
            key, offset, value = rest
        else:
            key, value = rest
            offset = None
            if completed and isinstance(value, list | tuple) and len(value) == 2:
                offset, value = value
        sends.append(KafkaRecord(frozen(key), _offset(offset), frozen(value)))
    elif kind == "poll":
        polled = rest[0] if rest else None
        pairs = polled.items() if isinstance(polled, dict) else polled or ()
        for key, records in pairs:
            polls.extend(KafkaRecord(frozen(key), _offset(offset), frozen(value)) for offset, value in records)
    else:
        raise ValueError(kind)


def _offset(offset: object) -> int | None:
    if offset is None:
        return None
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
        raise ValueError(offset)
    return offset


def _kinds(value: object) -> set[object]:
    if not isinstance(value, list | tuple):
        return set()
    return {frozen(micro[0]) if isinstance(micro, list | tuple) and micro else None for micro in value}


def json_rows(lines: Iterable[str]) -> Rows:
    """Read the events of a file of JSON lines."""
    position = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            form = json.loads(line)
        except (ValueError, RecursionError):
            yield Malformed(number, "expected an operation as one line of JSON")
            continue
        yield event_of(form, position, number)
        position += 1
