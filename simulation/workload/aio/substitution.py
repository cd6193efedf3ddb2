"""What aiokafka asks of its surroundings, answered by the simulation for as long as one runs.

aiokafka is used as it comes from its package. Most of what it does goes through its event loop, which is ours
(`simulation.engine.event_loop`): timers, tasks, connections. Host names are resolved by the network that connects. What
it asks elsewhere is substituted in the namespaces of its modules, and restored at the end:

| name | in | why | answer |
|---|---|---|---|
| `time` | `client`, `cluster`, `conn`, `consumer.fetcher`, `consumer.group_coordinator`, `consumer.subscription_state`, `producer.message_accumulator` | time-outs and ages by the machine's clocks | virtual time; the time of day begins as for the brokers |
| `random` | `client`, `conn`, `consumer.fetcher`, `partitioner` | which broker to ask first, the order of partitions in a fetch | draws of the stream `workload`, from what is to be drawn in sorted order: it comes from sets of names, whose order depends on the hash seed of the process |
| `frozenset` | `consumer.subscription_state` | a consumer's partitions, over which the fetcher iterates | one whose iteration is sorted |

Nothing else that aiokafka does for these clients depends on the process. Its futures and tasks, which it keeps in sets,
are hashed by number (`simulation.engine.event_loop`). Of its other sets, those of numbers have one order, those of
partitions are only asked for members, and those of topics, batches and listeners have one member, since a producer has
one operation in flight. Timestamps of records are given with each send. Threads, `uuid`, `socket` and SSL are not
reached: there is no SASL, and `socket` only parses addresses.

What its logger says, from warnings on, goes into the simulation's log.
"""  # noqa: E501 (a table)

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from simulation.engine.choices import Stream
from simulation.engine.cluster import NOBODY
from simulation.engine.event_loop import SimulatedEventLoop
from simulation.engine.event_queue import EventQueue
from simulation.engine.transport import CLIENTS_FROM

_US_PER_S = 1_000_000

_LOGGERS = ("aiokafka", "broker.shell")


class SimulatedTime:
    """The module `time`, as far as aiokafka uses it."""

    def __init__(self, timeline: EventQueue, began_s: float) -> None:
        self._timeline = timeline
        self._began_s = began_s

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self._timeline.now_us / _US_PER_S

    def time(self) -> float:
        """Seconds since 1970."""
        return self._began_s + self._timeline.now_us / _US_PER_S


class SimulatedRandom:
    """The module `random`, as far as aiokafka uses it: draws whose order does not depend on that of the argument."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def choice(self, items: Iterable[Any]) -> Any:  # noqa: ANN401
        """One of the items; raises IndexError if there is none."""
        ordered = sorted(items, key=repr)
        return ordered[self._stream.draw("the client picks", len(ordered))]

    def shuffle(self, items: list[Any]) -> None:
        """Order the items in place."""
        items.sort(key=repr)
        for first in range(len(items) - 1):
            other = first + self._stream.draw("the client shuffles", len(items) - first)
            items[first], items[other] = items[other], items[first]


class SortedFrozenSet(frozenset[Any]):
    """A frozenset whose iteration does not depend on the hashes of its members."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(frozenset.__iter__(self)))


@contextmanager
def substituted(
    timeline: EventQueue, stream: Stream, say: Callable[[str, int], None], began_s: float
) -> Iterator[None]:
    """Substitute, and restore. `say` gets what the loggers say, and the endpoint of the loop on which they do.

    The simulation begins `began_s` seconds after 1970.
    """
    time, random = SimulatedTime(timeline, began_s), SimulatedRandom(stream)
    answers: tuple[tuple[str, object, tuple[str, ...]], ...] = (
        ("time", time, _USERS_OF_TIME),
        ("random", random, _USERS_OF_RANDOM),
        ("frozenset", SortedFrozenSet, ("consumer.subscription_state",)),
    )
    before: list[tuple[dict[str, Any], str, object]] = []
    try:
        for name, answer, modules in answers:
            for module in modules:
                namespace = vars(importlib.import_module(f"aiokafka.{module}"))
                before.append((namespace, name, namespace.get(name, _ABSENT)))
                namespace[name] = answer
        with _heard(say):
            yield
    finally:
        for namespace, name, was in reversed(before):
            if was is _ABSENT:
                del namespace[name]
            else:
                namespace[name] = was


_ABSENT = object()
_USERS_OF_TIME = (
    "client",
    "cluster",
    "conn",
    "consumer.fetcher",
    "consumer.group_coordinator",
    "consumer.subscription_state",
    "producer.message_accumulator",
)
_USERS_OF_RANDOM = ("client", "conn", "consumer.fetcher", "partitioner")


class _Ear(logging.Handler):
    def __init__(self, say: Callable[[str, int], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        loop = asyncio._get_running_loop()
        endpoint = loop.endpoint if isinstance(loop, SimulatedEventLoop) else NOBODY
        self._say(f"{record.name}: {record.getMessage()}", endpoint if endpoint >= CLIENTS_FROM else NOBODY)


@contextmanager
def _heard(say: Callable[[str, int], None]) -> Iterator[None]:
    ear = _Ear(say)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(ear)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(ear)
            logger.setLevel(level)
            logger.propagate = propagate
