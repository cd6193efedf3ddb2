"""One interface to four client libraries: produce numbers with acks=all, read everything back.

They are the libraries' own ways to do it, with the settings that a user would choose who wants every record once.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable

import pytest

DELIVERY_MS = 60_000


class Client(ABC):
    """One client library."""

    @abstractmethod
    def produce(self, bootstrap: str, topic: str, stages: Iterable[Iterable[int]]) -> set[int]:
        """Send all numbers of all stages and return those that were acknowledged. A stage is taken when it is due."""

    @abstractmethod
    def read(self, bootstrap: str, topic: str, partitions: int) -> list[int]:
        """Read a topic from its beginning to its end."""


class KafkaPython(Client):
    def __init__(self):
        pytest.importorskip("kafka", reason="kafka-python is not installed")

    def produce(self, bootstrap, topic, stages):
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            delivery_timeout_ms=DELIVERY_MS,
            linger_ms=5,
        )
        sent = [(number, producer.send(topic, b"%d" % number)) for stage in stages for number in stage]
        producer.flush(DELIVERY_MS / 1000)
        producer.close()
        return {number for number, future in sent if future.succeeded()}

    def read(self, bootstrap, topic, partitions):
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), auto_offset_reset="earliest")
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        ends = consumer.end_offsets(assigned)
        found = []
        while any(consumer.position(each) < ends[each] for each in assigned):
            for records in consumer.poll(timeout_ms=500, max_records=5000).values():
                found += [int(record.value) for record in records]
        consumer.close()
        return found


class Aiokafka(Client):
    def __init__(self):
        pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install harrow[clients]")

    def produce(self, bootstrap, topic, stages):
        return asyncio.run(self._produce(bootstrap, topic, stages))

    def read(self, bootstrap, topic, partitions):
        return asyncio.run(self._read(bootstrap, topic, partitions))

    async def _produce(self, bootstrap, topic, stages):
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            acks="all",
            linger_ms=5,
            request_timeout_ms=DELIVERY_MS,
        )
        await producer.start()
        sent = []
        coming = iter(stages)
        # What happens between two stages takes its time, and the producer must go on meanwhile.
        while (stage := await asyncio.to_thread(next, coming, None)) is not None:
            for number in stage:
                sent.append((number, await producer.send(topic, b"%d" % number)))
        await asyncio.wait([future for _, future in sent])
        await producer.stop()
        return {number for number, future in sent if future.exception() is None}

    async def _read(self, bootstrap, topic, partitions):
        from aiokafka import AIOKafkaConsumer, TopicPartition

        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign(assigned)
        ends = await consumer.end_offsets(assigned)
        found = []
        while [each for each in assigned if await consumer.position(each) < ends[each]]:
            for records in (await consumer.getmany(timeout_ms=500, max_records=5000)).values():
                found += [int(record.value) for record in records]
        await consumer.stop()
        return found


class Confluent(Client):
    def __init__(self):
        pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: pip install harrow[clients]")

    def produce(self, bootstrap, topic, stages):
        from confluent_kafka import Producer

        acknowledged = set()

        def delivered(error, message):
            if error is None:
                acknowledged.add(int(message.value()))

        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "delivery.timeout.ms": DELIVERY_MS,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        for stage in stages:
            for number in stage:
                producer.produce(topic, b"%d" % number, on_delivery=delivered)
                producer.poll(0)
        producer.flush(DELIVERY_MS / 1000)
        return acknowledged

    def read(self, bootstrap, topic, partitions):
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        found, ended = [], set()
        while len(ended) < partitions:
            for message in consumer.consume(5000, timeout=0.5):
                if message.error() is None:
                    found.append(int(message.value()))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        consumer.close()
        return found


class Kcat(Client):
    def __init__(self):
        if shutil.which("kcat") is None:
            pytest.skip("kcat is not installed: apt-get install kcat")

    def produce(self, bootstrap, topic, stages):
        command = ["kcat", "-P", "-b", bootstrap, "-t", topic, "-X", "enable.idempotence=true"]
        command += ["-X", f"delivery.timeout.ms={DELIVERY_MS}"]
        sent = []
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            errors = []
            reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
            reader.start()
            for stage in stages:
                for number in stage:
                    process.stdin.write(b"%d\n" % number)
                    sent.append(number)
            process.stdin.close()
            assert process.wait(DELIVERY_MS / 1000) == 0, errors
            reader.join()
        # kcat says of no single record that it was stored; its exit status says it of all.
        return set(sent)

    def read(self, bootstrap, topic, partitions):
        command = ["kcat", "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-q"]
        done = subprocess.run(command, capture_output=True, check=True, timeout=DELIVERY_MS / 1000)
        return [int(line) for line in done.stdout.splitlines()]


CLIENTS: dict[str, type[Client]] = {
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "confluent-kafka": Confluent,
    "kcat": Kcat,
}
