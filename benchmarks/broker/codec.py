"""Measures decoding and encoding of messages in microseconds: our codec, kafka-python's and kio's.

Ours starts from bytes and ends with the core's messages, or the other way round. The peers' times are for
the same bytes: theirs start or end with their own objects, which a broker would still have to convert.
CPU time, so that other load of the machine distorts it little.

    python -m benchmarks.broker.codec
"""

from __future__ import annotations

import gc
import time
import timeit
from collections.abc import Callable
from io import BytesIO

from kafka.protocol.consumer import FetchRequest as KafkaFetchRequest
from kafka.protocol.consumer import FetchResponse as KafkaFetchResponse
from kafka.protocol.metadata import MetadataRequest as KafkaMetadataRequest
from kafka.protocol.metadata import MetadataResponse as KafkaMetadataResponse
from kafka.protocol.producer import ProduceRequest as KafkaProduceRequest
from kafka.protocol.producer import ProduceResponse as KafkaProduceResponse
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from broker.core.messages import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.shell.codec.clients.fetch import FETCH
from broker.shell.codec.clients.lookups import METADATA
from broker.shell.codec.clients.produce import PRODUCE

BATCH = bytes(11_033)
"""As long as a batch of 100 records of 100 bytes."""

TOPIC_ID = "6f1c2bb1-4a57-4f8e-9d32-0f2a4c5d6e7f"
REPEATS = 5
SECONDS = 0.05
KAFKA = {
    ("Produce", "request"): KafkaProduceRequest,
    ("Produce", "response"): KafkaProduceResponse,
    ("Fetch", "request"): KafkaFetchRequest,
    ("Fetch", "response"): KafkaFetchResponse,
    ("Metadata", "request"): KafkaMetadataRequest,
    ("Metadata", "response"): KafkaMetadataResponse,
}


def produce(count):
    parts = tuple(ProducePartition("topic", index, BATCH) for index in range(count))
    results = tuple(ProducedPartition("topic", index, 0, 123_456, 0) for index in range(count))
    return ProduceRequest(-1, 30_000, parts), ProduceResponse(results)


def fetch(count, topic_id):
    parts = tuple(FetchPartition("topic", index, 123_456, 1 << 20, 5, 5, 0, topic_id) for index in range(count))
    replica = (2, 77) if topic_id else (-1, -1)
    fetched = tuple(
        FetchedPartition("topic", index, 0, 123_456, 123_456, 0, BATCH, topic_id=topic_id) for index in range(count)
    )
    return FetchRequest(parts, *replica), FetchResponse(fetched)


def metadata():
    brokers = tuple(MetadataBroker(node_id, "10.0.0.1", 9092) for node_id in (1, 2, 3))
    replicas = (1, 2, 3)
    parts = tuple(MetadataPartition(0, index, 1, 5, replicas, replicas, ()) for index in range(6))
    topics = tuple(MetadataTopic(0, f"topic-{n}", TOPIC_ID, False, parts) for n in range(10))
    return MetadataRequest((("topic-1", ""),), True), MetadataResponse(brokers, "harrow", 1, topics)


def microseconds(call: Callable[[], object]) -> float:
    """Time of one call, the best of several rounds."""
    timer = timeit.Timer(call, timer=time.process_time)
    once = max(timer.timeit(3) / 3, 1e-6)
    number = max(3, int(SECONDS / once))
    gc.collect()
    return min(timer.repeat(REPEATS, number)) / number * 1e6


def row(codec, version, kind, message, size):
    encode = codec.encode_request if kind == "request" else codec.encode_response
    decode = codec.decode_request if kind == "request" else codec.decode_response
    data = b"".join(encode(message, version))
    kafka = KAFKA[codec.name, kind]
    kafka_message = kafka.decode(data, version=version)
    schema = (load_request_schema if kind == "request" else load_response_schema)(codec.api_key, version)
    read, write = entity_reader(schema), entity_writer(schema)
    entity, _ = read(data, 0)
    times = (
        microseconds(lambda: decode(data, 0, version)),
        microseconds(lambda: kafka.decode(data, version=version)),
        microseconds(lambda: read(data, 0)),
        microseconds(lambda: b"".join(encode(message, version))),
        microseconds(kafka_message.encode),
        microseconds(lambda: write(BytesIO(), entity)),
    )
    name = f"{codec.name} v{version} {kind}"
    print(f"{name:<22}{size:<22}{len(data):>8}" + "".join(f"{time:>9.1f}" for time in times))


def main() -> None:
    print(f"{'':<52}{'decode µs':^27}{'encode µs':^27}")
    names = ("ours", "kafka-py", "kio") * 2
    print(f"{'message':<22}{'with':<22}{'bytes':>8}" + "".join(f"{name:>9}" for name in names))
    for codec, version, messages, size in (
        (PRODUCE, 9, produce(1), "1 partition"),
        (PRODUCE, 10, produce(10), "10 partitions"),
        (FETCH, 12, fetch(1, ""), "1 partition"),
        (FETCH, 16, fetch(10, TOPIC_ID), "10 partitions"),
        (METADATA, 12, metadata(), "10 topics of 6"),
    ):
        for kind, message in zip(("request", "response"), messages, strict=True):
            row(codec, version, kind, message, size)


if __name__ == "__main__":
    main()
