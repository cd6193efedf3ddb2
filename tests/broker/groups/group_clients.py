"""One interface to the group consumers of the client libraries: poll, assignment, commit, leave."""

from __future__ import annotations

import asyncio
import importlib.util
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

POLL_S = 0.2
CALL_S_MAX = 60.0


class Member(ABC):
    """One consumer of one library, subscribed to one topic. Offsets are committed explicitly."""

    module: str

    @classmethod
    def needs(cls) -> None:
        """Skip the test if the library is not installed."""
        if importlib.util.find_spec(cls.module) is None:
            pytest.skip(f"{cls.module} is not installed")

    @abstractmethod
    def __init__(self, bootstrap: list[str], topic: str, group: str) -> None: ...

    @abstractmethod
    def poll(self) -> list[int]:
        """The numbers received within a short time."""

    @abstractmethod
    def assigned(self) -> set[int]:
        """The partitions assigned to this member."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the position, and wait for the acknowledgement."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""


class KafkaPython(Member):
    """Polled by a separate thread: with this library a join that ends between polls has to be repeated."""

    module = "kafka"

    def __init__(self, bootstrap, topic, group):
        from kafka import KafkaConsumer

        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            reconnect_backoff_max_ms=500,
        )
        self._found: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._orders: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._closed.is_set():
            for records in self._consumer.poll(1000).values():
                for record in records:
                    self._found.put(int(record.value))
            while not self._orders.empty():
                order, done = self._orders.get()
                try:
                    done.set_result(order())
                except Exception as error:
                    done.set_exception(error)

    def _call(self, order):
        done: Future[None] = Future()
        self._orders.put((order, done))
        done.result(CALL_S_MAX)

    def poll(self):
        numbers: list[int] = []
        with suppress(queue.Empty):
            numbers.append(self._found.get(timeout=POLL_S))
            while True:
                numbers.append(self._found.get_nowait())
        return numbers

    def assigned(self):
        return {each.partition for each in self._consumer.assignment()}

    def commit(self):
        self._call(self._consumer.commit)

    def close(self):
        self._closed.set()
        self._thread.join(CALL_S_MAX)
        self._consumer.close(autocommit=False)


class Confluent(Member):
    module = "confluent_kafka"

    def __init__(self, bootstrap, topic, group):
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {
                "bootstrap.servers": ",".join(bootstrap),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self):
        messages = self._consumer.consume(100, POLL_S)
        return [int(message.value()) for message in messages if message.error() is None]

    def assigned(self):
        return {each.partition for each in self._consumer.assignment()}

    def commit(self):
        results = self._consumer.commit(asynchronous=False)
        assert all(each.error is None for each in results), results

    def close(self):
        self._consumer.close()


class Aiokafka(Member):
    module = "aiokafka"

    def __init__(self, bootstrap, topic, group):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._call(self._begin(bootstrap, topic, group))

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S_MAX)

    async def _begin(self, bootstrap, topic, group):
        from aiokafka import AIOKafkaConsumer

        self._consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await self._consumer.start()

    def poll(self):
        polled = self._call(self._consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        return [int(record.value) for records in polled.values() for record in records]

    def assigned(self):
        return {each.partition for each in self._consumer.assignment()}

    def commit(self):
        self._call(self._consumer.commit())

    def close(self):
        self._call(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


MEMBERS: dict[str, type[Member]] = {"kafka-python": KafkaPython, "confluent": Confluent, "aiokafka": Aiokafka}
