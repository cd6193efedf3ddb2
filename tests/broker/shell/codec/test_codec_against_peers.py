"""Two other implementations of the protocol, kafka-python and kio, read our bytes and write them again."""

from __future__ import annotations

import dataclasses
import uuid
from io import BytesIO

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from broker.core.messages import Coordinator
from broker.shell.codec.apis import CODECS
from broker.shell.codec.clients.fetch import FETCH
from broker.shell.codec.clients.produce import PRODUCE
from tests.broker.shell.codec.wire_samples import Sampler

SEEDS = range(8)
GONE_WITH_ZOOKEEPER = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"}
"""Kafka 4.0 has none of them: `test_bytes_of_leadership` has their bytes."""

UNKNOWN_TO_KIO = {"GetReplicaLogInfo", *GONE_WITH_ZOOKEEPER}

SHARED = [
    pytest.param(codec, version, id=f"{codec.name}-v{version}")
    for codec in CODECS
    if codec.name not in UNKNOWN_TO_KIO
    for version in range(codec.versions[0], codec.versions[1] + 1)
]


def sample(codec, seed, kind):
    sampler = Sampler(seed)
    message = sampler.request(codec) if kind == "request" else sampler.response(codec)
    if codec.name == "FindCoordinator" and kind == "request":
        return message._replace(keys=(*message.keys, "key"))
    if codec.name == "FindCoordinator":
        return message._replace(coordinators=(Coordinator("key", 0, 1, "localhost", 9092),))
    return message


def in_version(message, codec, version):
    """Old versions cannot ask for a topic by its id."""
    if {"Metadata": 10, "DeleteTopics": 6}.get(codec.name, 0) <= version or message.topics is None:
        return message
    return message._replace(topics=tuple((name or "t", "") for name, _ in message.topics))


def encode(codec, version, message, kind):
    parts = (codec.encode_request if kind == "request" else codec.encode_response)(message, version)
    return b"".join(parts)


@pytest.mark.parametrize("kind", ["request", "response"])
@pytest.mark.parametrize(("codec", "version"), SHARED)
def test_kio_reads_our_bytes_and_writes_the_same(codec, version, kind):
    schema = (load_request_schema if kind == "request" else load_response_schema)(codec.api_key, version)
    read, write = entity_reader(schema), entity_writer(schema)
    for seed in SEEDS:
        message = sample(codec, seed, kind)
        if kind == "request":
            message = in_version(message, codec, version)
        data = encode(codec, version, message, kind)
        entity, consumed = read(data, 0)
        assert consumed == len(data)
        out = BytesIO()
        write(out, entity)
        assert out.getvalue() == data


NAMED_BY_US = [
    pytest.param(codec, version, id=f"{codec.name}-v{version}")
    for codec in CODECS
    if codec.api_key in (52, 53, 54, 56, 59, 62, 63, 67)
    for version in range(codec.versions[0], codec.versions[1] + 1)
]


@pytest.mark.parametrize("kind", ["request", "response"])
@pytest.mark.parametrize(("codec", "version"), NAMED_BY_US)
def test_the_fields_of_our_own_schemas_mean_what_kio_says(codec, version, kind):
    """Equal bytes do not distinguish two fields of one type; their values under their names do."""
    schema = (load_request_schema if kind == "request" else load_response_schema)(codec.api_key, version)
    for seed in SEEDS:
        message = sample(codec, seed, kind)
        entity, _ = entity_reader(schema)(encode(codec, version, message, kind), 0)
        found = by_name(entity)
        for name, expected in by_name(message).items():
            if name in found:
                assert {plain(each) for each in expected} <= {plain(each) for each in found[name]}, name


def by_name(value):
    """Scalar fields by name, outer ones first; arrays are included only if they have one element."""
    fields = {}
    for name, each in leaves(value):
        fields.setdefault(name, []).append(each)
    return fields


def leaves(value):
    if dataclasses.is_dataclass(value):
        items = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    else:
        items = list(value._asdict().items())
    for name, each in items:
        if isinstance(each, tuple):
            if len(each) == 1 and (dataclasses.is_dataclass(each[0]) or hasattr(each[0], "_fields")):
                yield from leaves(each[0])
        else:
            yield name, each


def plain(value):
    if isinstance(value, uuid.UUID):
        return str(value)
    return value.value if hasattr(value, "value") else value


# --- the hand-written codecs ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 11))
def test_kafka_python_reads_our_produce_requests(version):
    for seed in SEEDS:
        request = sample(PRODUCE, seed, "request")
        data = encode(PRODUCE, version, request, "request")
        wire = ProduceRequest.decode(data, version=version)
        assert bytes(wire.encode()) == data
        assert (wire.acks, wire.timeout_ms, wire.transactional_id) == (
            request.acks,
            request.timeout_ms,
            request.transactional_id,
        )
        found = [(t.name, p.index, bytes(p.records)) for t in wire.topic_data for p in t.partition_data]
        assert found == [(p.topic, p.partition, p.records) for p in request.partitions]


@pytest.mark.parametrize("version", range(3, 11))
def test_kafka_python_reads_our_produce_responses(version):
    for seed in SEEDS:
        response = sample(PRODUCE, seed, "response")
        data = encode(PRODUCE, version, response, "response")
        wire = ProduceResponse.decode(data, version=version)
        assert bytes(wire.encode()) == data
        results = [(t.name, p) for t in wire.responses for p in t.partition_responses]
        assert len(results) == len(response.partitions)
        for (name, found), expected in zip(results, response.partitions, strict=True):
            assert (name, found.index) == (expected.topic, expected.partition)
            assert (found.error_code, found.base_offset) == (expected.error_code, expected.base_offset)
            if version >= 5:
                assert found.log_start_offset == expected.log_start_offset
            if version >= 8:
                assert found.error_message == expected.error_message
            if version >= 10 and expected.current_leader:
                leader = found.current_leader
                assert (leader.leader_id, leader.leader_epoch) == expected.current_leader


@pytest.mark.parametrize("version", range(4, 17))
def test_kafka_python_reads_our_fetch_requests(version):
    for seed in SEEDS:
        request = sample(FETCH, seed, "request")
        data = encode(FETCH, version, request, "request")
        wire = FetchRequest.decode(data, version=version)
        assert bytes(wire.encode()) == data
        assert (wire.max_wait_ms, wire.min_bytes, wire.max_bytes, wire.isolation_level) == (
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
        )
        if version >= 15:
            state = wire.replica_state
            assert (state.replica_id, state.replica_epoch) == (request.replica_id, request.replica_epoch)
        else:
            assert wire.replica_id == request.replica_id
        if version >= 7:
            assert (wire.session_id, wire.session_epoch) == (request.session_id, request.session_epoch)
        if version >= 12:
            assert wire.cluster_id == request.cluster_id
        found = [p for t in wire.topics for p in t.partitions]
        assert len(found) == len(request.partitions)
        for partition, expected in zip(found, request.partitions, strict=True):
            assert (partition.partition, partition.fetch_offset) == (expected.partition, expected.fetch_offset)
            assert partition.partition_max_bytes == expected.max_bytes
            if version >= 5:
                assert partition.log_start_offset == expected.log_start_offset
            if version >= 9:
                assert partition.current_leader_epoch == expected.current_leader_epoch
            if version >= 12:
                assert partition.last_fetched_epoch == expected.last_fetched_epoch


@pytest.mark.parametrize("version", range(4, 17))
def test_kafka_python_reads_our_fetch_responses(version):
    for seed in SEEDS:
        response = sample(FETCH, seed, "response")
        data = encode(FETCH, version, response, "response")
        wire = FetchResponse.decode(data, version=version)
        assert bytes(wire.encode()) == data
        if version >= 7:
            assert (wire.error_code, wire.session_id) == (response.error_code, response.session_id)
        found = [(t, p) for t in wire.responses for p in t.partitions]
        assert len(found) == len(response.partitions)
        for (topic, partition), expected in zip(found, response.partitions, strict=True):
            if version >= 13:
                assert str(topic.topic_id) == expected.topic_id
            else:
                assert topic.topic == expected.topic
            assert (partition.partition_index, partition.error_code) == (expected.partition, expected.error_code)
            assert partition.high_watermark == expected.high_watermark
            assert partition.last_stable_offset == expected.last_stable_offset
            assert bytes(partition.records) == expected.records
            if version >= 5:
                assert partition.log_start_offset == expected.log_start_offset
            if version >= 12 and expected.diverging_epoch:
                diverging = partition.diverging_epoch
                assert (diverging.epoch, diverging.end_offset) == expected.diverging_epoch
            if version >= 12 and expected.snapshot_id:
                snapshot = partition.snapshot_id
                assert (snapshot.end_offset, snapshot.epoch) == expected.snapshot_id
