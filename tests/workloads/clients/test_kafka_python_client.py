"""kafka-python against a broker that misbehaves on command: recorded outcomes must agree with what was appended."""

import queue
import random
import threading

import pytest
from kafka.errors import UnknownBrokerIdError

from tests.workloads.clients.stand_in_broker import NODE, StandInBroker, Trouble
from workloads.clients import client_named
from workloads.clients.base import (
    LOG_START,
    ClientError,
    ClientSettings,
    Partition,
    PositionLostError,
    SendOutcome,
)
from workloads.clients.kafka_python.producer import KafkaPythonConnection
from workloads.values import encode_value

P0 = Partition("chaos", 0)
P1 = Partition("chaos", 1)
REFUSED = 19  # NOT_ENOUGH_REPLICAS


@pytest.fixture
def broker():
    stand_in = StandInBroker({"chaos": 2})
    yield stand_in
    stand_in.close()


def settings(broker, **changes):
    values = {"request_timeout_ms": 300, "delivery_timeout_ms": 900} | changes
    return ClientSettings((broker.address,), **values)


@pytest.fixture
def connect(broker):
    opened = []

    def open_producer(**changes):
        opened.append(client_named("kafka-python").producer(settings(broker, **changes)))
        return opened[-1]

    yield open_producer
    for producer in opened:
        producer.close(0)


@pytest.fixture
def consumer(broker):
    opened = client_named("kafka-python").consumer(settings(broker))
    yield opened
    opened.close()


def send(producer, *numbers, partition=P0) -> list[SendOutcome]:
    answers: queue.SimpleQueue[list[SendOutcome]] = queue.SimpleQueue()
    producer.send(partition, [encode_value(number) for number in numbers], answers.put)
    return list(answers.get(timeout=10))


def script(broker, *ends):
    """Treat the first produce requests so, and append all others."""
    remaining = list(ends)
    broker.on_produce = lambda *_: remaining.pop(0) if remaining else 0


@pytest.mark.parametrize("idempotence", [True, False])
def test_an_acknowledged_send_has_offset_and_node(broker, connect, idempotence):
    producer = connect(idempotence=idempotence)
    assert send(producer, 1, 2) == [SendOutcome("ok", 0, None, NODE), SendOutcome("ok", 1, None, NODE)]
    assert send(producer, 3) == [SendOutcome("ok", 2, None, NODE)]
    assert broker.values(*P0) == [encode_value(number) for number in (1, 2, 3)]


def test_without_acks_nothing_is_known_of_the_offset(connect):
    assert send(connect(acks=0, idempotence=False), 1) == [SendOutcome("ok")]


def test_a_send_that_was_refused_every_time_has_failed(broker, connect):
    broker.on_produce = lambda *_: REFUSED
    (outcome,) = send(connect(), 1)
    assert outcome == SendOutcome("fail", None, "KafkaTimeoutError after NotEnoughReplicasError")
    assert broker.values(*P0) == []


def test_a_cut_connection_leaves_a_later_refusal_in_doubt(broker, connect):
    first = [Trouble.CUT_AFTER_APPEND]
    broker.on_produce = lambda *_: first.pop() if first else REFUSED
    (outcome,) = send(connect(), 1)
    assert outcome == SendOutcome("info", None, "KafkaTimeoutError after NotEnoughReplicasError")
    assert broker.values(*P0) == [encode_value(1)]


def test_a_refusal_leaves_a_later_silence_in_doubt(broker, connect):
    remaining = [REFUSED]
    broker.on_produce = lambda *_: remaining.pop() if remaining else Trouble.SILENCE
    (outcome,) = send(connect(), 1)
    assert outcome.status == "info"


def test_a_send_that_was_never_answered_is_unknown(broker, connect):
    broker.on_produce = lambda *_: Trouble.SILENCE
    (outcome,) = send(connect(), 1)
    assert outcome.status == "info"


def test_an_append_without_enough_replicas_is_unknown(broker, connect):
    broker.on_produce = lambda *_: Trouble.APPEND_THEN_REFUSE
    (outcome,) = send(connect(), 1)
    assert outcome == SendOutcome("info", None, "KafkaTimeoutError after NotEnoughReplicasAfterAppendError")


def test_a_refused_sequence_is_a_failure_of_that_send_only(broker, connect):
    script(broker, 45)
    producer = connect()
    assert send(producer, 1) == [SendOutcome("fail", None, "OutOfOrderSequenceNumberError")]
    assert send(producer, 2)[0].status == "ok"


def test_a_duplicate_sequence_is_no_acknowledgement(broker, connect):
    script(broker, 46)
    assert send(connect(), 1) == [SendOutcome("info", None, "DuplicateSequenceNumberError")]


def test_a_retry_after_a_cut_is_acknowledged_where_it_was_appended_first(broker, connect):
    script(broker, Trouble.CUT_AFTER_APPEND)
    assert send(connect(), 1) == [SendOutcome("ok", 0, None, NODE)]
    assert broker.values(*P0) == [encode_value(1)]


def test_what_could_not_be_sent_to_an_absent_broker_has_failed(broker, connect):
    producer = connect(idempotence=False)
    assert send(producer, 1)[0].status == "ok"
    broker.close()
    first, second = send(producer, 2)[0], send(producer, 3)[0]
    assert first.status in ("fail", "info")  # it may have met the dying connection
    assert second == SendOutcome("fail", None, "KafkaTimeoutError")


def test_closing_answers_what_is_open(broker, connect):
    producer = connect()
    assert send(producer, 1)[0].status == "ok"
    answers: queue.SimpleQueue[list[SendOutcome]] = queue.SimpleQueue()
    appended = threading.Event()
    broker.on_produce = lambda *_: appended.set() or Trouble.SILENCE
    producer.send(P0, [encode_value(2)], answers.put)
    producer.send(P1, [encode_value(3)], answers.put)
    assert appended.wait(5)
    producer.close(0)
    assert {answers.get(timeout=5)[0].status for _ in range(2)} <= {"fail", "info"}


def test_a_partition_that_does_not_exist_is_a_failure(connect):
    assert send(connect(), 1, partition=Partition("chaos", 9)) == [SendOutcome("fail", error="ValueError")]


def test_a_producer_that_is_stuck_for_good_is_replaced(broker, connect, monkeypatch):
    monkeypatch.setattr("workloads.clients.producers.RENEWAL_INTERVAL_S", 0.0)
    script(broker, 87)  # INVALID_RECORD is fatal to kafka-python's idempotent producer
    producer = connect()
    assert send(producer, 1)[0].status == "fail"
    number = 2
    while True:  # until the fresh producer is there; the deadline is the test's own
        producer.renew()
        (outcome,) = send(producer, number)
        number += 1
        if outcome.status == "ok":
            break
        assert outcome.status == "fail"
    assert broker.values(*P0) == [encode_value(number - 1)]


def test_a_send_whose_connection_is_closed_under_it_is_in_doubt(broker, monkeypatch):
    connection = KafkaPythonConnection(settings(broker))

    def closed_meanwhile() -> None:
        raise RuntimeError("NetworkSelector closed!")

    monkeypatch.setattr(connection._producer._sender, "wakeup", closed_meanwhile)
    [outcome] = send(connection, 1)
    assert outcome == SendOutcome("info", error="RuntimeError")
    monkeypatch.undo()
    connection.close(idle=False)


def test_a_consumer_whose_network_was_closed_is_a_client_error(broker):
    consumer = client_named("kafka-python").consumer(settings(broker))
    consumer.assign({P0: LOG_START})
    consumer.close()
    with pytest.raises(ClientError):
        consumer.end_offset(P0, 0.2)


def test_no_broker_is_one_client_error():
    nowhere = ClientSettings(("127.0.0.1:1",), request_timeout_ms=300, delivery_timeout_ms=300)
    with pytest.raises(ClientError):
        client_named("kafka-python").producer(nowhere)
    with pytest.raises(ClientError):
        client_named("kafka-python").consumer(nowhere)


def poll_until(consumer, wanted):
    """Poll until a row satisfies `wanted`; the deadline is the test's own."""
    while True:
        poll = consumer.poll(0.5)
        for row in poll.partitions:
            if wanted(row):
                return poll, row


def test_a_reader_is_handed_every_record_from_the_start(connect, consumer):
    producer = connect()
    send(producer, 1, 2)
    send(producer, 3)
    assert consumer.assign({P0: LOG_START}) == {P0: 0}
    poll, row = poll_until(consumer, lambda row: row.records)
    assert (row.partition, row.position) == (P0, 0)
    assert [(each.offset, each.value) for each in row.records] == list(enumerate(map(encode_value, (1, 2, 3))))
    assert row.next_position == 3
    assert poll.node == NODE


def test_a_reader_at_the_end_gets_an_answer_from_a_broker(connect, consumer):
    send(connect(), 1, 2)
    consumer.assign({P0: 2, P1: 0})
    _, row = poll_until(consumer, lambda row: row.partition == P0)
    assert (row.position, row.next_position, row.high_watermark, list(row.records)) == (2, 2, 2, [])


def test_silence_is_not_taken_for_an_empty_log(broker, connect, consumer):
    send(connect(), 1)
    consumer.assign({P0: 1})
    poll_until(consumer, lambda row: row.partition == P0)
    broker.close()
    consumer.poll(0.3)  # an answer that was under way may still count
    assert consumer.poll(0.3).partitions == []


def test_a_seek_is_obeyed(connect, consumer):
    send(connect(), 1, 2, 3)
    consumer.assign({P0: 3})
    consumer.poll(0.2)
    consumer.seek(P0, 1)
    _, row = poll_until(consumer, lambda row: row.records)
    assert [each.offset for each in row.records] == [1, 2]


def test_records_that_a_failed_poll_had_taken_are_read_again(connect, consumer, monkeypatch):
    send(connect(), 1, 2, 3)
    consumer.assign({P0: LOG_START})
    library = consumer._consumer
    whole_poll = library.poll

    def poll_and_fail(**timeout):
        if not whole_poll(**timeout):
            return {}
        monkeypatch.undo()
        raise UnknownBrokerIdError(7)

    monkeypatch.setattr(library, "poll", poll_and_fail)
    with pytest.raises(ClientError, match="UnknownBrokerIdError"):
        poll_until(consumer, lambda _row: False)
    _, row = poll_until(consumer, lambda row: row.records)
    assert (row.position, [each.offset for each in row.records]) == (0, [0, 1, 2])


def test_a_position_that_the_log_has_lost_is_reported(broker, connect, consumer):
    send(connect(), 1, 2, 3)
    consumer.assign({P0: 3, P1: 0})
    broker.truncate(*P0)
    with pytest.raises(PositionLostError, match="OffsetOutOfRangeError") as caught:
        poll_until(consumer, lambda _row: False)
    assert caught.value.partitions == (P0,)


def test_the_end_is_the_leaders_answer(broker, connect, consumer):
    send(connect(), 1, 2, 3)
    consumer.assign({P0: LOG_START})
    assert consumer.end_offset(P0, 2.0) == (3, NODE)
    broker.stale_end[P0] = 1
    assert consumer.end_offset(P0, 2.0) == (1, NODE)


STORM = [
    *[0] * 12,
    6,  # NOT_LEADER_OR_FOLLOWER
    7,  # REQUEST_TIMED_OUT
    19,  # NOT_ENOUGH_REPLICAS
    19,
    45,  # OUT_OF_ORDER_SEQUENCE_NUMBER
    *Trouble,
]


@pytest.mark.parametrize("idempotence", [True, False])
def test_what_is_sent_after_it_ran_out_of_time_is_unknown(broker, connect, monkeypatch, idempotence):
    producer = connect(idempotence=idempotence)
    assert send(producer, 1)[0].status == "ok"
    connection = producer._current.connection  # the process is held up after a batch was chosen to be sent
    accumulator = connection._producer._accumulator
    drain = accumulator.drain

    def held_up(*arguments, **options):
        chosen = drain(*arguments, **options)
        for batch in (batch for batches in chosen.values() for batch in batches):
            monkeypatch.setattr(batch, "created", batch.created - 60)
        return chosen

    appended = threading.Event()
    broker.on_produce = lambda *_: appended.set() or 0
    monkeypatch.setattr(accumulator, "drain", held_up)
    assert send(producer, 2) == [SendOutcome("info", None, "KafkaTimeoutError")]
    assert appended.wait(10)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("idempotence", [True, False])
def test_no_storm_of_troubles_makes_an_outcome_untrue(broker, connect, monkeypatch, seed, idempotence):
    monkeypatch.setattr("workloads.clients.producers.RENEWAL_INTERVAL_S", 0.0)
    weather = random.Random(seed)
    broker.on_produce = lambda *_: weather.choice(STORM)
    producer = connect(idempotence=idempotence, request_timeout_ms=200, delivery_timeout_ms=600)
    answers: queue.SimpleQueue[tuple[int, Partition, SendOutcome]] = queue.SimpleQueue()

    def start(number):
        partition = weather.choice([P0, P1])
        producer.send(partition, [encode_value(number)], lambda given: answers.put((number, partition, given[0])))

    for number in range(8):
        start(number)
    ended = {}
    while len(ended) < 120:
        number, partition, outcome = answers.get(timeout=10)
        ended[encode_value(number)] = (partition, outcome)
        if outcome.status != "ok":
            producer.renew()
        if number + 8 < 120:
            start(number + 8)
    broker.close()
    logs = {partition: broker.values(*partition) for partition in (P0, P1)}
    for value, (partition, outcome) in ended.items():
        if outcome.status == "ok":
            assert logs[partition][outcome.offset] == value
        if outcome.status == "fail":
            assert value not in logs[partition]
        if idempotence:
            assert logs[partition].count(value) <= 1
    assert {outcome.status for _, outcome in ended.values()} > {"ok"}, "there was no storm"
