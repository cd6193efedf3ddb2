"""What a leader makes of producers' batches: another compression, its own time, bounds of the producers' times."""

from __future__ import annotations

import sys
import zlib

import cramjam
import pytest

from broker.core.configuration import values
from broker.core.configuration.brokers import BROKER_SETTINGS
from broker.core.configuration.settings import UNLIMITED
from broker.core.log.compression import CODECS, compress, decompress
from broker.core.messages import (
    ConfigOperation,
    ConfigResource,
    CreateTopicsRequest,
    FetchPartition,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    NewTopic,
    ProducePartition,
    ProduceRequest,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import (
    LOG_APPEND_TIME_FLAG,
    check_crc,
    decode_records,
    encode_batch,
    iterate_headers,
    read_header,
)
from broker.core.replica import intake
from broker.core.replica.intake import Intake, Unfit, taken
from tests.support.batches import batch_of, recompressed, sealed
from tests.support.cluster import TOPIC, Cluster

START_MS = 1_800_000_000_000
FROM_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def topic_with(wall_clock_ms=START_MS, **configs):
    cluster = Cluster(wall_clock_ms=wall_clock_ms)
    cluster.create_topic(**configs)
    return cluster


def produce(cluster, batch):
    part = ProducePartition(TOPIC, 0, batch)
    return cluster.call(cluster.leader(), ProduceRequest(-1, 1000, (part,))).partitions[0]


def stored(cluster, number, offset=0):
    """Headers and records of all batches of a replica, by what a consumer gets."""
    (replica,) = [each for key, each in cluster.machines[number].node.state.replicas.items() if key == (TOPIC, 0)]
    log = replica.log
    batches = log.read(offset, 1 << 20, log.end_offset)
    return [(header, list(decode_records(batches, at))) for at, header in iterate_headers(batches)]


def now_ms(cluster):
    return START_MS + cluster.now_ms


def in_codec(batch, name):
    return (
        batch
        if name == "none"
        else recompressed(batch, CODECS.index(name), lambda data: compress(CODECS.index(name), data))
    )


# --- compression -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", FROM_CODECS)
def test_every_replica_stores_the_codec_that_the_topic_wants(sent, wanted):
    cluster = topic_with(compression_type=wanted)
    plain = batch_of([10_000, 30_000, 20_000], b"value" * 100)
    assert produce(cluster, in_codec(plain, sent)).error_code == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    expected = {"producer": sent, "uncompressed": "none"}.get(wanted, wanted)
    for number in (1, 2, 3):
        ((header, records),) = stored(cluster, number)
        assert CODECS[header.codec] == expected
        assert records == list(decode_records(plain))
        assert (header.base_timestamp, header.max_timestamp) == (10_000, 30_000)


def test_an_idempotent_batch_that_is_compressed_anew_keeps_its_numbers():
    cluster = topic_with(compression_type="gzip")
    batch = encode_batch([(b"k", b"v" * 500)] * 3, 0, 0, 1000, 77, 4, 0)
    first, again = produce(cluster, batch), produce(cluster, batch)
    assert (first.error_code, first.base_offset) == (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    ((header, _),) = stored(cluster, cluster.leader())
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.codec) == (77, 4, 0, 1)
    following = produce(cluster, encode_batch([(b"k", b"v")], 0, 0, 1000, 77, 4, 3))
    assert (following.error_code, following.base_offset) == (ErrorCode.NONE, 3)


def test_the_codec_changes_with_the_setting_of_the_topic_and_of_all_brokers():
    cluster = topic_with()

    def alter(kind, name, operation, value):
        change = ConfigOperation("compression.type", operation, value)
        answer = cluster.call(1, IncrementalAlterConfigsRequest((ConfigResource(kind, name, (change,)),)))
        assert answer.results[0].error_code == ErrorCode.NONE
        cluster.run(300)

    batch = batch_of([1, 2], bytes(1000))
    produce(cluster, batch)
    alter(4, "", 0, "zstd")
    produce(cluster, batch)
    alter(2, TOPIC, 0, "lz4")
    produce(cluster, batch)
    alter(2, TOPIC, 1, None)
    produce(cluster, batch)
    alter(4, "", 1, None)
    produce(cluster, batch)
    found = [CODECS[header.codec] for header, _ in stored(cluster, cluster.leader())]
    assert found == ["none", "zstd", "lz4", "zstd", "none"]


def test_a_batch_that_gets_too_large_by_its_new_codec_is_refused():
    cluster = topic_with(compression_type="uncompressed", max_message_bytes="5000")
    answer = produce(cluster, in_codec(batch_of([1], bytes(50_000)), "gzip"))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "5000" in answer.error_message
    assert cluster.replica(cluster.leader())["log_end"] == 0


def test_garbage_that_must_be_compressed_anew_is_refused():
    cluster = topic_with(compression_type="zstd")
    for codec in (1, 2, 3):
        answer = produce(cluster, recompressed(batch_of([1], b"value"), codec, lambda data: b"garbage" + data))
        assert answer.error_code == ErrorCode.INVALID_RECORD
    bomb = recompressed(batch_of([1], b"value"), 1, lambda data: zlib.compress(bytes(64 << 20), wbits=31))
    assert produce(cluster, bomb).error_code == ErrorCode.INVALID_RECORD
    assert cluster.replica(cluster.leader())["log_end"] == 0


def test_lz4_is_written_as_javas_clients_read_it():
    """They refuse frames whose blocks depend on one another."""
    frame = compress(CODECS.index("lz4"), b"some words " * 50_000)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0x20


@pytest.mark.parametrize("name", FROM_CODECS)
def test_what_is_compressed_is_decompressed(name):
    for data in (b"", b"x", b"some words " * 20_000):
        assert decompress(CODECS.index(name), compress(CODECS.index(name), data)) == data


@pytest.fixture
def without_cramjam(monkeypatch):
    monkeypatch.setitem(sys.modules, "cramjam", None)


@pytest.mark.usefixtures("without_cramjam")
@pytest.mark.parametrize(("value", "error"), [("zstd", ErrorCode.INVALID_CONFIG), ("gzip", ErrorCode.NONE)])
def test_a_codec_whose_library_is_not_there_is_refused_by_name(value, error):
    cluster = topic_with()
    created = NewTopic("other", 1, 1, configs=(("compression.type", value),))
    answer = cluster.call(1, CreateTopicsRequest((created,))).topics[0]
    change = ConfigOperation("compression.type", 0, value)
    altered = cluster.call(1, IncrementalAlterConfigsRequest((ConfigResource(2, TOPIC, (change,)),))).results[0]
    assert answer.error_code == altered.error_code == error
    if error:
        assert "cramjam" in answer.error_message
        assert "cramjam" in altered.error_message
        with pytest.raises(values.ImpossibleValue, match="cramjam"):
            BROKER_SETTINGS["compression.type"].type.check(value)


def test_a_leader_without_the_library_refuses_records_and_lives(monkeypatch):
    cluster = topic_with(compression_type="zstd")
    monkeypatch.setitem(sys.modules, "cramjam", None)
    answer = produce(cluster, batch_of([1]))
    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert "cramjam" in answer.error_message


# --- the leader's time -----------------------------------------------------------------------------------------------


def test_records_get_the_time_of_day_at_which_the_leader_appended_them():
    cluster = topic_with(message_timestamp_type="LogAppendTime")
    cluster.run(5_000)
    batch = in_codec(batch_of([10_000, 20_000]), "gzip")
    before = now_ms(cluster)
    answer = produce(cluster, batch)
    assert before <= answer.log_append_time_ms <= now_ms(cluster)
    cluster.run_until(cluster.is_whole)
    for number in (1, 2, 3):
        ((header, records),) = stored(cluster, number)
        assert header.has_log_append_time
        assert header.codec == 1
        assert [record.timestamp for record in records] == [answer.log_append_time_ms] * 2


def test_records_are_found_by_the_leaders_time():
    cluster = topic_with(message_timestamp_type="LogAppendTime")
    first = produce(cluster, batch_of([10_000, 20_000])).log_append_time_ms
    cluster.run(1_000)
    second = produce(cluster, batch_of([5, 6])).log_append_time_ms
    assert second >= first + 1_000

    def found(timestamp):
        request = ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, timestamp),))
        asked = cluster.ask(cluster.leader(), request, api_version=7)
        cluster.run_until(lambda: asked in cluster.answers)
        answer = cluster.answers[asked]
        return answer.partitions[0].offset, answer.partitions[0].timestamp

    assert found(0) == (0, first)
    assert found(first + 1) == (2, second)
    assert found(second + 1) == (-1, -1)
    assert found(-3) == (2, second)


def test_a_duplicate_is_answered_with_the_time_that_it_got_the_first_time():
    cluster = topic_with(message_timestamp_type="LogAppendTime")
    batch = encode_batch([(None, b"v")], 0, 0, 1000, 77, 0, 0)
    first = produce(cluster, batch)
    cluster.run(3_000)
    assert produce(cluster, batch) == first
    assert first.log_append_time_ms > START_MS


def test_with_the_producers_time_no_time_of_the_leader_is_answered():
    cluster = topic_with()
    assert produce(cluster, batch_of([10_000])).log_append_time_ms == -1


def test_a_producer_must_not_claim_the_leaders_time():
    cluster = topic_with()
    batch = bytearray(batch_of([10_000]))
    batch[22] |= LOG_APPEND_TIME_FLAG
    assert produce(cluster, sealed(bytes(batch))).error_code == ErrorCode.INVALID_TIMESTAMP


# --- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_times_far_from_the_brokers_are_refused_for_any_record_of_a_batch(codec):
    cluster = topic_with(message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="1000")
    now = now_ms(cluster)
    cases = [
        ([now - 50_000, now], ErrorCode.NONE),
        ([now - 50_000, now + 500], ErrorCode.NONE),
        ([now - 70_000, now], ErrorCode.INVALID_TIMESTAMP),
        ([now, now + 5_000], ErrorCode.INVALID_TIMESTAMP),
        ([-1], ErrorCode.NONE),
    ]
    for timestamps, error in cases:
        answer = produce(cluster, in_codec(batch_of(timestamps), codec))
        assert answer.error_code == error, timestamps
        assert (answer.error_message is None) == (error == ErrorCode.NONE)


def test_bounds_are_for_the_producers_time_only():
    cluster = topic_with(
        message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="0", message_timestamp_after_max_ms="0"
    )
    assert produce(cluster, batch_of([5])).error_code == ErrorCode.NONE


def test_without_bounds_any_time_is_taken():
    cluster = topic_with()
    assert produce(cluster, batch_of([1, 1 << 50])).error_code == ErrorCode.NONE


def test_too_many_records_to_compare_are_refused(monkeypatch):
    monkeypatch.setattr(intake, "RECORDS_MAX", 3)
    bounded = Intake(None, False, UNLIMITED, 10)
    for count, fits in ((3, True), (4, False)):
        batch = batch_of([5] * count)
        if fits:
            assert taken(bounded, batch, read_header(batch), 0, 1 << 20)[0] == batch
        else:
            with pytest.raises(Unfit, match="at most 3 records"):
                taken(bounded, batch, read_header(batch), 0, 1 << 20)


def test_a_converted_batch_is_sound():
    batch = batch_of([5, 9], b"value")
    converted, header = taken(Intake(2, True, UNLIMITED, UNLIMITED), batch, read_header(batch), 77, 1 << 20)
    assert header == read_header(converted)
    assert check_crc(converted, 0, len(converted))
    assert bytes(cramjam.snappy.decompress_raw(converted[61:])) == batch[61:]


def test_consumers_of_all_nodes_read_what_was_converted():
    cluster = topic_with(compression_type="lz4", message_timestamp_type="LogAppendTime")
    leader = cluster.leader()
    for value in range(20):
        assert cluster.produce(leader, value) == ErrorCode.NONE
    assert cluster.read(leader) == list(range(20))
    cluster.run_until(cluster.is_whole)
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() not in (leader, -1))
    cluster.run_until(lambda: cluster.replica(cluster.leader())["role"] == "leader")
    assert cluster.read(cluster.leader()) == list(range(20))
    part = FetchPartition(TOPIC, 0, 7, 1 << 20)
    assert cluster.call(cluster.leader(), FetchRequest((part,), max_wait_ms=10)).partitions[0].records
