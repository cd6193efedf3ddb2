"""The optional clients behind the same interface, against the stand-in broker."""

import importlib.util
import queue

import pytest

from tests.workloads.clients.stand_in_broker import StandInBroker, Trouble
from workloads.clients import client_named
from workloads.clients.base import LOG_START, ClientSettings, Partition, PositionLostError, SendOutcome
from workloads.values import encode_value

P0 = Partition("chaos", 0)
P1 = Partition("chaos", 1)
MODULES = {"confluent-kafka": "confluent_kafka", "aiokafka": "aiokafka"}

pytestmark = pytest.mark.clients


@pytest.fixture(params=MODULES)
def library(request):
    if importlib.util.find_spec(MODULES[request.param]) is None:
        pytest.skip(f"{request.param} is not installed: pip install harrow[clients]")
    return client_named(request.param)


@pytest.fixture
def broker():
    stand_in = StandInBroker({"chaos": 2})
    yield stand_in
    stand_in.close()


def settings(broker, **changes):
    values = {"request_timeout_ms": 1000, "delivery_timeout_ms": 2000} | changes
    return ClientSettings((broker.address,), **values)


@pytest.fixture
def producer(library, broker):
    opened = library.producer(settings(broker, idempotence=False))
    yield opened
    opened.close(0)


@pytest.fixture
def consumer(library, broker):
    opened = library.consumer(settings(broker))
    yield opened
    opened.close()


def send(producer, *numbers):
    answers: queue.SimpleQueue[list[SendOutcome]] = queue.SimpleQueue()
    producer.send(P0, [encode_value(number) for number in numbers], answers.put)
    return list(answers.get(timeout=15))


def read(consumer, count):
    """Poll until so many records have come; the deadline is the test's own."""
    rows = []
    while sum(len(row.records) for row in rows) < count:
        rows += consumer.poll(0.5).partitions
    return rows


def test_an_acknowledged_send_has_its_offsets(producer, broker):
    assert send(producer, 1, 2) == [SendOutcome("ok", 0), SendOutcome("ok", 1)]
    assert broker.values(*P0) == [encode_value(1), encode_value(2)]


def test_an_idempotent_send_is_acknowledged(library, broker):
    producer = library.producer(settings(broker))
    assert send(producer, 1)[0].status == "ok"
    producer.close(1)


def test_a_send_that_was_never_answered_is_unknown(producer, broker):
    broker.on_produce = lambda *_: Trouble.SILENCE
    assert {outcome.status for outcome in send(producer, 1)} == {"info"}


def test_a_refusal_is_not_called_a_failure_without_proof(producer, broker):
    broker.on_produce = lambda *_: 87  # INVALID_RECORD, which no client retries
    assert {outcome.status for outcome in send(producer, 1)} == {"info"}


def test_a_reader_is_handed_every_record_from_the_start(producer, consumer):
    send(producer, 1, 2, 3)
    assert consumer.assign({P0: LOG_START, P1: LOG_START}) == {P0: 0, P1: 0}
    rows = read(consumer, 3)
    assert {row.partition for row in rows} == {P0}
    assert [row.position for row in rows] == [0, *(row.next_position for row in rows[:-1])]
    assert [(each.offset, each.value) for row in rows for each in row.records] == list(
        enumerate(map(encode_value, (1, 2, 3)))
    )
    assert {row.high_watermark for row in rows} == {None}


def test_a_seek_is_obeyed(producer, consumer):
    send(producer, 1, 2, 3)
    consumer.assign({P0: LOG_START})
    read(consumer, 3)
    consumer.seek(P0, 1)
    assert [each.offset for row in read(consumer, 2) for each in row.records] == [1, 2]


def test_the_end_is_the_leaders_answer(producer, consumer, broker):
    send(producer, 1, 2, 3)
    consumer.assign({P0: LOG_START})
    assert consumer.end_offset(P0, 5.0).offset == 3
    broker.stale_end[P0] = 1
    assert consumer.end_offset(P0, 5.0).offset == 1


def test_a_position_that_the_log_has_lost_is_reported(consumer):
    consumer.assign({P0: 10})
    with pytest.raises(PositionLostError) as caught:
        read(consumer, 1)
    assert caught.value.partitions == (P0,)
