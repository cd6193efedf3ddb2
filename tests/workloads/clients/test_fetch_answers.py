"""Which broker gave what a poll of kafka-python returns, when a deposed leader and its successor both answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from kafka.protocol.consumer import FetchRequest

from workloads.clients.base import Partition, Poll
from workloads.clients.kafka_python.consumer import FetchWatch, finished_poll, with_records

P0 = Partition("chaos", 0)
RECORDS = [SimpleNamespace(offset=offset, leader_epoch=0, value=b"") for offset in (5, 6)]


class Future:
    """The future of a response that has not come yet."""

    def __init__(self) -> None:
        self.answered: list[Callable[[object], object]] = []

    def add_callback(self, callback: Callable[..., object], *given: object) -> None:
        self.answered.append(partial(callback, *given))


def fetch(watch: FetchWatch, node: int, offset: int = 5) -> Callable[..., None]:
    """Send a fetch to a broker; returns what answers it."""
    future = Future()
    asked = FetchRequest.FetchTopic.FetchPartition(partition=P0.partition, fetch_offset=offset)
    watch.watch(node, FetchRequest(topics=[FetchRequest.FetchTopic(topic=P0.topic, partitions=[asked])]), future)

    def answer(high_watermark: int, records: bytes | None = None) -> None:
        data = SimpleNamespace(
            partition_index=P0.partition, error_code=0, high_watermark=high_watermark, records=records
        )
        for each in future.answered:
            each(SimpleNamespace(responses=[SimpleNamespace(topic=P0.topic, partitions=[data])]))

    return answer


def poll(watch: FetchWatch, records: list[Any], started_ns: int = 0, position: int = 5) -> Poll:
    polled = [with_records(P0, position, records, watch, started_ns)] if records else []
    return finished_poll(polled, {P0: position}, watch, started_ns)


def test_records_come_from_the_broker_that_had_some() -> None:
    """A leader that is cut off holds a fetch, and the next leader answers meanwhile."""
    watch = FetchWatch()
    deposed, successor = fetch(watch, 1), fetch(watch, 2)
    successor(7, b"records")
    deposed(5)
    returned = poll(watch, RECORDS)
    assert (returned.node, returned.partitions[0].high_watermark) == (2, 7)


def test_where_two_brokers_had_records_nobody_knows_whose_they_are() -> None:
    watch = FetchWatch()
    for node in (1, 2):
        fetch(watch, node)(7, b"records")
    returned = poll(watch, RECORDS)
    assert (returned.node, returned.partitions[0].high_watermark) == (None, None)


def test_an_empty_poll_is_the_last_answer_that_there_was_nothing() -> None:
    watch = FetchWatch()
    fetch(watch, 1)(5)
    fetch(watch, 2)(5)
    returned = poll(watch, [])
    assert (returned.node, returned.partitions[0].high_watermark) == (2, 5)
    assert not poll(watch, [], time.monotonic_ns()).partitions, "it was asked before this poll"


def test_answers_for_another_position_say_nothing() -> None:
    watch = FetchWatch()
    fetch(watch, 1)(7, b"records")
    fetch(watch, 2, offset=7)(7)
    assert poll(watch, RECORDS).node is None
    assert poll(watch, [], position=7).node == 2
