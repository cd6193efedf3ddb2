"""The logical processes of the `log` workload, with a client and a clock that the test controls."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history.clock import RunClock
from history.reader import load_table
from history.writer import HistoryWriter
from tests.workloads.fake_client import FakeConsumer, FakeLibrary, FakeTime
from workloads.base import Context, Unread
from workloads.clients.base import ClientError, Partition, SendOutcome
from workloads.config import config_from
from workloads.log.reader import FAILURES_MAX, Reader, ReadPlan
from workloads.log.senders import Senders, SendPlan
from workloads.log.workload import LogWorkload, process_numbers
from workloads.recording import Recorder
from workloads.threads import SECOND_NS, TokenBucket
from workloads.values import VALUES_PER_WORKER, ValueSource, decode_value, encode_value

P0 = Partition("chaos", 0)
P1 = Partition("chaos", 1)
SUCCESSOR = 100
WORKER = 1


class Bench:
    """A worker's parts, without its threads."""

    def __init__(self, directory):
        self.directory = directory
        self.time = FakeTime()
        self.library = FakeLibrary()
        self.history = HistoryWriter(directory / "history", "run", "worker1")
        self.recorder = Recorder(self.history, WORKER, "fake", -1)

    def senders(self, processes=2, rate=1000.0, batch=(1, 1)):
        plan = SendPlan(
            partitions=[P0, P1],
            processes=range(10, 10 + processes),
            successor=SUCCESSOR,
            rate_per_s=rate,
            batch_min=batch[0],
            batch_max=batch[1],
            seed=3,
            answer_within_ns=5 * SECOND_NS,
        )
        producer = self.library.producer(None)
        return Senders(plan, producer, self.recorder, ValueSource(WORKER), self.time.now), producer

    def reader(self, **changes):
        values = {"latest_interval_s": 1e6, "seek_interval_s": 1e6} | changes
        plan = ReadPlan([P0, P1], 7, 3, poll_timeout_s=0.1, poll_interval_s=0.05, request_timeout_s=1, **values)
        return Reader(plan, lambda: self.library.consumer(None), self.recorder, self.time.now)

    def table(self, name):
        self.history.flush()
        return load_table(self.directory, name).table.to_pylist()


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.history.close()


def start(bench, senders, seconds=0.1):
    bench.time.advance(seconds)
    senders.step()


def test_a_process_has_one_send_in_flight(bench):
    senders, producer = bench.senders(processes=2)
    for _ in range(5):
        start(bench, senders)
    assert len(producer.pending) == senders.open == 2
    producer.acknowledge(producer.take())
    start(bench, senders)
    assert len(producer.pending) == 2


def test_no_more_sends_than_the_rate_allows(bench):
    senders, producer = bench.senders(processes=50, rate=10)
    sent = 0
    for _ in range(200):
        start(bench, senders, 0.01)
        sent += len(producer.pending)
        while producer.pending:
            producer.acknowledge(producer.take())
    assert 18 <= sent <= 20


def test_an_acknowledged_send_is_recorded_with_its_offsets(bench):
    senders, producer = bench.senders(processes=1, batch=(3, 3))
    producer.logs[P0].append(b"before")
    producer.logs[P1].append(b"before")
    start(bench, senders)
    producer.acknowledge(producer.take())
    (operation,) = bench.table("operations")
    sends = bench.table("sends")
    assert operation["status"] == "ok"
    assert (operation["kind"], operation["phase"], operation["client"]) == ("send", "main", "fake")
    assert (operation["process"], operation["node"], operation["error"]) == (10, 3, None)
    assert operation["invoked_ns"] < operation["completed_ns"]
    assert [(row["offset"], row["ordinal"]) for row in sends] == [(1, 0), (2, 1), (3, 2)]
    assert [row["value"] for row in sends] == [WORKER * VALUES_PER_WORKER + n for n in range(3)]
    assert {row["op"] for row in sends} == {operation["op"]}
    assert {row["acks"] for row in sends} == {-1}


def test_an_unknown_outcome_retires_the_process_and_renews_the_client(bench):
    senders, producer = bench.senders(processes=1)
    for _ in range(3):
        start(bench, senders)
        producer.take().done([SendOutcome("info", error="Lost")])
    assert [row["process"] for row in bench.table("operations")] == [10, 110, 210]
    assert producer.renewals == 3


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_processes_and_their_successors_never_share_a_number(processes_of_workers):
    workers = len(processes_of_workers)
    numbers = [
        first + generation * workers * processes
        for worker, processes in enumerate(processes_of_workers)
        for first in process_numbers(worker, workers, processes)
        for generation in range(20)
    ]
    assert len(numbers) == len(set(numbers))


def test_a_failure_does_not_retire_the_process(bench):
    senders, producer = bench.senders(processes=1)
    for _ in range(2):
        start(bench, senders)
        producer.take().done([SendOutcome("fail", error="Refused")])
    rows = bench.table("operations")
    assert [(row["process"], row["status"], row["error"]) for row in rows] == [(10, "fail", "Refused")] * 2


def test_a_send_whose_records_fared_differently_is_unknown_as_a_whole(bench):
    senders, producer = bench.senders(processes=1, batch=(2, 2))
    start(bench, senders)
    producer.take().done([SendOutcome("ok", 5, None, 3), SendOutcome("fail", error="Refused")])
    (operation,) = bench.table("operations")
    assert (operation["status"], operation["error"], operation["node"]) == ("info", "Refused", None)
    assert [row["offset"] for row in bench.table("sends")] == [5, None]


def test_a_send_that_the_client_forgot_is_given_up_and_its_late_answer_ignored(bench):
    senders, producer = bench.senders(processes=1)
    start(bench, senders)
    start(bench, senders, 4.0)
    assert senders.open == 1
    start(bench, senders, 2.0)
    forgotten = producer.take()
    producer.acknowledge(forgotten)
    (operation,) = bench.table("operations")
    assert (operation["status"], operation["error"]) == ("info", "NeverAnswered")
    assert operation["completed_ns"] is not None
    start(bench, senders)
    producer.acknowledge(producer.take())
    assert [row["process"] for row in bench.table("operations")] == [10, 110]


def test_sends_that_are_open_at_the_end_are_unknown_and_never_completed(bench):
    senders, producer = bench.senders(processes=2)
    start(bench, senders)
    senders.abandon()
    producer.acknowledge(producer.take())
    rows = bench.table("operations")
    assert [(row["status"], row["completed_ns"]) for row in rows] == [("info", None)] * 2
    assert len(bench.table("sends")) == 2
    assert senders.open == 0


def test_the_same_seed_makes_the_same_choices(tmp_path):
    def choices(name):
        bench = Bench(tmp_path / name)
        senders, producer = bench.senders(processes=3, batch=(1, 4))
        chosen = []
        for _ in range(20):
            start(bench, senders)
            chosen += [(send.partition, send.values) for send in producer.pending]
            while producer.pending:
                producer.acknowledge(producer.take())
        bench.history.close()
        return chosen

    assert choices("first") == choices("second")


FATES = st.sampled_from(["ok", "fail", "info", "info but appended", "never"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(FATES, st.integers(0, 3)), max_size=60))
def test_the_history_says_what_the_client_did(tmp_path_factory, fates):
    bench = Bench(tmp_path_factory.mktemp("bench"))
    senders, producer = bench.senders(processes=4, batch=(1, 3))
    expected = {}
    for fate, place in fates:
        start(bench, senders)
        send = producer.take(place % len(producer.pending))
        values = [decode_value(value) for value in send.values]
        match fate:
            case "ok":
                producer.acknowledge(send)
                end = len(producer.logs[send.partition])
                offsets = range(end - len(values), end)
                expected |= {value: ("ok", at) for value, at in zip(values, offsets, strict=True)}
            case "fail" | "info":
                send.done([SendOutcome(fate, error="Reported")] * len(values))
                expected |= dict.fromkeys(values, (fate, None))
            case "info but appended":
                producer.append(send)
                send.done([SendOutcome("info", error="Reported")] * len(values))
                expected |= dict.fromkeys(values, ("info", None))
            case "never":
                producer.pending.append(send)
    for send in producer.pending:
        expected |= {decode_value(value): ("info", None) for value in send.values}
    senders.abandon()
    bench.history.close()
    status = {row["op"]: row for row in load_table(bench.directory, "operations").table.to_pylist()}
    recorded = {
        row["value"]: (status[row["op"]]["status"], row["offset"])
        for row in load_table(bench.directory, "sends").table.to_pylist()
    }
    assert recorded == expected
    unknown = [row["process"] for row in status.values() if row["status"] == "info"]
    assert len(unknown) == len(set(unknown)), "a process went on after it had lost sight of its operation"
    by_process: dict[int, list[tuple[int, int]]] = {}
    for row in status.values():
        end = row["completed_ns"] or bench.time.ns
        by_process.setdefault(row["process"], []).append((row["invoked_ns"], end))
    for spans in by_process.values():
        spans.sort()
        assert all(before[1] < after[0] for before, after in zip(spans, spans[1:], strict=False))


def fill(bench, partition, count):
    log = bench.library.logs[partition]
    log.extend([encode_value(len(log) + number) for number in range(count)])


def test_a_reader_starts_at_the_start_and_says_so_once(bench):
    fill(bench, P0, 3)
    reader = bench.reader()
    assert reader.step() == 0.05
    assert reader.step() == 0.0
    first, second = (row for row in bench.table("polls") if row["partition"] == 0)
    assert (first["position"], first["next_position"], first["records"], first["assigned"]) == (0, 3, 3, True)
    assert (second["position"], second["next_position"], second["records"]) == (3, 3, 0)
    assert second["assigned"] is False
    reads = bench.table("reads")
    assert [(row["offset"], row["value"], row["ordinal"]) for row in reads] == [(0, 0, 0), (1, 1, 1), (2, 2, 2)]


def test_a_payload_that_is_not_ours_is_read_as_null(bench):
    bench.library.logs[P0].append(b"who wrote this?")
    bench.reader().step()
    assert [row["value"] for row in bench.table("reads")] == [None]


def test_a_reader_asks_for_the_end_now_and_then(bench):
    fill(bench, P0, 2)
    fill(bench, P1, 2)
    reader = bench.reader(latest_interval_s=1.0)
    reader.step()
    bench.time.advance(2)
    reader.step()
    (row,) = (row for row in bench.table("operations") if row["kind"] == "latest")
    assert (row["status"], row["node"]) == ("ok", 3)
    (poll,) = (poll for poll in bench.table("polls") if poll["op"] == row["op"])
    assert (poll["position"], poll["next_position"], poll["records"]) == (None, 2, 0)


def test_a_reader_goes_back_now_and_then_and_marks_it(bench):
    fill(bench, P0, 20)
    fill(bench, P1, 20)
    reader = bench.reader(seek_interval_s=1.0)
    reader.step()
    bench.time.advance(2)
    reader.step()
    again = bench.table("polls")[2:]
    (back,) = (row for row in again if row["position"] < 20)
    assert back["assigned"] is True
    assert {row["assigned"] for row in again if row is not back} == {False}


def test_a_read_that_fails_has_no_effect(bench):
    reader = bench.reader()
    reader.step()
    bench.library.consumers[0].errors.append(ClientError("RequestTimedOutError"))
    assert reader.step() > 0
    last = bench.table("operations")[-1]
    assert (last["kind"], last["status"], last["error"]) == ("poll", "fail", "RequestTimedOutError")
    assert last["process"] == bench.table("operations")[0]["process"]


def test_a_position_that_is_lost_is_read_again_from_the_start(bench):
    fill(bench, P0, 5)
    fill(bench, P1, 5)
    reader = bench.reader()
    reader.step()
    del bench.library.logs[P0][2:]
    reader.step()
    reader.step()
    last = {row["partition"]: row for row in bench.table("polls")[-2:]}
    assert (last[0]["position"], last[0]["next_position"], last[0]["assigned"]) == (0, 2, True)
    assert (last[1]["position"], last[1]["assigned"]) == (5, True)


def test_a_client_that_keeps_failing_is_replaced_where_it_stood(bench):
    fill(bench, P0, 5)
    reader = bench.reader()
    reader.step()
    first = bench.library.consumers[0]
    first.errors += [ClientError("Broken")] * FAILURES_MAX
    for _ in range(FAILURES_MAX + 1):
        reader.step()
    assert first.closed
    assert len(bench.library.consumers) == 2
    assert bench.library.consumers[1].positions == {P0: 5, P1: 0}


def test_a_reader_that_cannot_connect_tries_again(bench):
    attempts = []

    def connect():
        attempts.append(1)
        if len(attempts) < 3:
            raise ClientError("NoBrokers")
        return FakeConsumer(bench.library.logs)

    plan = ReadPlan([P0], 7, 3, 0.1, 0.05, 1e6, 1e6, 1)
    reader = Reader(plan, connect, bench.recorder, bench.time.now)
    pauses = [reader.step() for _ in range(3)]
    assert all(pause > 0 for pause in pauses[:2])
    assert len(bench.table("operations")) == 1


def test_the_final_read_goes_from_the_start_to_the_given_ends(bench):
    fill(bench, P0, 10)
    fill(bench, P1, 4)
    reader = bench.reader()
    reader.step()
    reader.begin_final({P0: 10, P1: 4})
    assert reader.unread() == [Unread(7, P0, None, 10), Unread(7, P1, None, 4)]
    bench.library.consumers[0].per_poll = 3
    while reader.unread():
        reader.step()
    rest = reader.step()
    final = {row["op"] for row in bench.table("operations") if row["phase"] == "final"}
    reads = [row for row in bench.table("reads") if row["op"] in final]
    assert [row["offset"] for row in reads if row["partition"] == 0] == list(range(10))
    assert [row["offset"] for row in reads if row["partition"] == 1] == list(range(4))
    assert rest > 0
    assert len({row["op"] for row in bench.table("operations") if row["phase"] == "final"}) == len(final)


def test_a_final_read_says_what_it_is_missing(bench):
    fill(bench, P0, 3)
    reader = bench.reader()
    reader.begin_final({P0: 5, P1: 0})
    for _ in range(5):
        reader.step()
    assert reader.unread() == [Unread(7, P0, 3, 5)]


def test_a_token_bucket_does_not_save_up():
    bucket = TokenBucket(100, now_ns=0, burst_s=0.1)
    assert bucket.take(1000, 60 * SECOND_NS) == 10
    assert bucket.take(1000, 60 * SECOND_NS) == 0
    assert bucket.take(2, 61 * SECOND_NS) == 2


def test_counts_add_up(bench):
    senders, producer = bench.senders(processes=3, batch=(2, 2))
    start(bench, senders)
    producer.acknowledge(producer.take())
    producer.take().done([SendOutcome("fail", error="Refused")] * 2)
    producer.take().done([SendOutcome("info", error="Lost")] * 2)
    bench.reader().step()
    counts = bench.recorder.counts()
    assert counts.sends == {"ok": 1, "fail": 1, "info": 1}
    assert (counts.operations, counts.polls, counts.latest) == (4, 1, 0)
    assert (counts.records_acked, counts.records_read) == (2, 2)
    assert counts.errors == {"Refused": 1, "Lost": 1}


def test_nothing_is_recorded_after_the_recorder_was_closed(bench):
    senders, producer = bench.senders(processes=2)
    start(bench, senders)
    producer.acknowledge(producer.take())
    bench.recorder.close()
    producer.acknowledge(producer.take())
    assert len(bench.table("operations")) == len(bench.table("sends")) == 1


def test_a_worker_is_not_drained_while_a_send_may_still_begin(bench, tmp_path, monkeypatch):
    """The sending thread is held up at its last step: what it then starts must be counted before `drained`."""
    in_step, go_on = threading.Event(), threading.Event()
    step = Senders.step

    def held_up(senders):
        if in_step.is_set():
            return
        in_step.set()
        assert go_on.wait(10)
        step(senders)

    monkeypatch.setattr(Senders, "step", held_up)
    values = {"run_id": "run", "origin_ns": 0, "worker": WORKER, "workers": 2, "history": "h", "bootstrap": ["b:1"]}
    config = config_from(values | {"topics": {"chaos": 2}, "producers": 1, "readers": 0, "rate": 1000.0})
    workload = LogWorkload(Context(config, bench.library, bench.recorder, RunClock.starting_now()))
    workload.start()
    assert in_step.wait(10)
    assert workload.open() == 0, "expected sends in flight to be counted, and nothing else, before the end"
    workload.drain()
    assert workload.open() == 1
    go_on.set()
    (thread,) = workload._threads._threads
    deadline = time.monotonic() + 10
    while workload._sends_begin.is_set():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert workload.open() == len(bench.library.producers[0].pending)
    workload.stop()
    assert not thread.is_alive()
