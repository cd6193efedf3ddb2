"""The workloads `register` and `queue`: outcomes of commands, with a client and a log that the test controls."""

import random

import pytest

from checkers.linearizability.check import check_history
from history.reader import load_table
from history.writer import HistoryWriter
from tests.workloads.fake_client import FakeLibrary, FakeTime
from tests.workloads.kept_objects import operations
from workloads.clients.base import Partition, PolledPartition, PolledRecord, SendOutcome
from workloads.log.senders import Senders, SendPlan
from workloads.objects import COMMANDS_PER_KEY, QUEUE, REGISTER, Call, Commands
from workloads.recording import Recorder
from workloads.threads import SECOND_NS
from workloads.values import ValueSource, body_of, decode_value

P0 = Partition("chaos", 0)


class Bench:
    """The commands of one worker and the log that they go to."""

    def __init__(self, directory, machine):
        self.directory = directory
        self.time = FakeTime()
        self.library = FakeLibrary()
        self.history = HistoryWriter(directory / "history", "run", "worker0")
        self.recorder = Recorder(self.history, 0, "fake", -1)
        self.commands = Commands(machine, self.recorder, self.time.now)
        self.producer = self.library.producer(None)

    @property
    def log(self):
        return self.library.logs[P0]

    def senders(self, processes=2):
        plan = SendPlan([P0], range(10, 10 + processes), 100, 1000.0, 1, 1, 3, 5 * SECOND_NS)
        return Senders(plan, self.producer, self.recorder, ValueSource(0), self.time.now, self.commands)

    def read(self, start=0, end=None, commands=None):
        values = self.log[start:end]
        records = [PolledRecord(start + place, 0, value) for place, value in enumerate(values)]
        (commands or self.commands).read(PolledPartition(P0, start, start + len(values), None, records))

    def rows(self):
        self.history.flush()
        return load_table(self.directory, "commands").table.to_pylist()


@pytest.fixture(params=[REGISTER, QUEUE], ids=lambda machine: machine.model)
def bench(request, tmp_path):
    made = Bench(tmp_path, request.param)
    yield made
    made.history.close()


@pytest.fixture
def register(tmp_path):
    made = Bench(tmp_path, REGISTER)
    yield made
    made.history.close()


class Only:
    """Choices that always draw one share: 0.0 reads, 0.5 writes, 0.9 compares and sets."""

    def __init__(self, share):
        self.share = share

    def random(self):
        return self.share


READ, WRITE, CAS = Only(0.0), Only(0.5), Only(0.9)


def give(bench, number, choices, process=7, commands=None):
    (payload,) = (commands or bench.commands).load(process, P0, [number], choices)
    return payload


def start(bench, senders, seconds=0.1):
    bench.time.advance(seconds)
    senders.step()


def test_a_history_of_many_commands_over_a_log_is_linearizable(bench):
    senders = bench.senders(processes=5)
    choices = random.Random(4)
    for _ in range(COMMANDS_PER_KEY):
        start(bench, senders, 0.01)
        for send in list(bench.producer.pending):
            if choices.random() < 0.6:
                bench.producer.pending.remove(send)
                bench.producer.acknowledge(send)
        if choices.random() < 0.5:
            bench.read()
    senders.abandon()
    bench.commands.close()
    rows = bench.rows()
    verdict = check_history(operations(rows), rows[0]["model"])
    assert verdict.outcome == "valid", verdict.reason
    assert len({row["key"] for row in rows}) >= 2
    assert len({row["function"] for row in rows}) == len(REGISTER.effects if len(rows[0]["model"]) > 10 else "qd")
    assert sum(row["status"] == "ok" for row in rows) > COMMANDS_PER_KEY


def test_an_acknowledged_command_that_the_log_lost_makes_the_history_invalid(register):
    """The planted violation: a write is acknowledged, and no reader ever finds it."""
    register.log.append(give(register, 1, WRITE))
    register.read()
    give(register, 2, WRITE)
    register.commands.sent([2], "ok")
    register.log.append(give(register, 3, READ))
    register.read()
    verdict = check_history(operations(register.rows()), "cas-register")
    assert (verdict.outcome, verdict.reason) == (
        "invalid",
        "key 'chaos-0/0': no valid order contains read → 1 of process 7",
    )


def test_a_command_with_a_result_is_over_only_when_the_log_has_been_read_up_to_it(register):
    senders = register.senders(processes=1)
    while not register.producer.pending or b"read" not in register.producer.pending[0].values[0]:
        register.read()
        while register.producer.pending:
            register.producer.acknowledge(register.producer.take())
        start(register, senders)
    before = len(register.rows())
    register.producer.acknowledge(register.producer.take())
    start(register, senders)
    assert register.producer.pending == []
    assert len(register.rows()) == before
    register.read()
    assert register.rows()[-1]["function"] == "read"
    start(register, senders)
    assert len(register.producer.pending) == 1


def test_compare_and_set_returns_whether_it_swapped(register):
    first, second = (register.commands.load(process, P0, [process], CAS)[0] for process in (1, 2))
    register.log.extend([first, second])
    register.read()
    rows = register.rows()
    assert [(row["argument"], row["result"], row["status"]) for row in rows] == [
        ("[null, 1]", "true", "ok"),
        ("[null, 2]", "false", "ok"),
    ]
    give(register, 3, CAS)
    register.commands.close()
    assert register.rows()[-1]["argument"] == "[1, 3]"


def test_a_queue_gives_values_in_the_order_in_which_they_came():
    state, results = QUEUE.initial, []
    for call in (Call("dequeue"), Call("enqueue", 1), Call("enqueue", 2), Call("dequeue"), Call("dequeue")):
        state, result = QUEUE.effects[call.function](state, call.argument)
        results.append(result)
    assert (state, results) == ((), [None, None, None, 1, 2])


def test_a_command_in_doubt_frees_its_process_and_is_known_once_it_turns_up(register):
    payload = give(register, 1, READ)
    register.commands.sent([1], "info")
    assert register.commands.waits(7) is None
    assert register.rows() == []
    register.log.append(payload)
    register.read()
    (row,) = register.rows()
    assert (row["status"], row["result"]) == ("ok", "null")


def test_a_command_that_never_turns_up_is_unknown_and_one_that_was_refused_has_failed(register):
    give(register, 1, WRITE)
    give(register, 2, WRITE, process=8)
    register.commands.sent([1], "info")
    register.commands.sent([2], "fail")
    register.commands.close()
    rows = {row["value"]: row for row in register.rows()}
    assert (rows[1]["status"], rows[1]["completed_ns"]) == ("info", None)
    assert rows[2]["status"] == "fail"


def test_a_command_that_a_retry_appended_twice_is_carried_out_once(register):
    payload = give(register, 1, CAS)
    register.log.extend([payload, give(register, 2, WRITE), payload, give(register, 3, READ)])
    register.read()
    assert register.rows()[-1]["result"] == "2"


def test_what_was_read_before_is_not_carried_out_again_and_nothing_behind_a_gap(register):
    register.log.extend([give(register, 1, WRITE), give(register, 2, WRITE), give(register, 3, READ)])
    register.read(1)
    assert register.rows() == []
    register.read(0, 2)
    register.read(0)
    assert [(row["value"], row["result"]) for row in register.rows()] == [(1, None), (2, None), (3, "2")]


def test_two_workers_that_read_one_log_agree(register):
    other = Commands(REGISTER, register.recorder, register.time.now)
    register.log.append(give(register, 1, WRITE))
    register.log.append(give(register, 2, READ, commands=other))
    register.read()
    register.read(commands=other)
    assert register.rows()[-1]["result"] == "1"


def test_another_object_has_its_turn_after_so_many_commands_and_old_ones_are_forgotten(register, monkeypatch):
    monkeypatch.setattr("workloads.objects.KEYS_KEPT", 1)
    late = give(register, 0, READ, process=1)
    for number in range(1, COMMANDS_PER_KEY + 2):
        register.log.append(give(register, number, WRITE))
        register.read(number - 1)
    register.log.append(late)
    register.read(len(register.log) - 1)
    register.commands.close()
    rows = {row["value"]: row for row in register.rows()}
    assert rows[COMMANDS_PER_KEY]["key"] == "chaos-0/0"
    assert rows[COMMANDS_PER_KEY + 1]["key"] == "chaos-0/1"
    assert rows[0]["status"] == "info"


def test_a_process_whose_command_is_lost_is_retired(register):
    senders = register.senders(processes=1)
    while not register.producer.pending or b"write" in register.producer.pending[0].values[0]:
        while register.producer.pending:
            register.producer.acknowledge(register.producer.take())
        start(register, senders)
    (send,) = register.producer.pending
    register.producer.take().done([SendOutcome("ok", 5, None, 3)])
    assert body_of(send.values[0])
    assert decode_value(send.values[0]) is not None
    start(register, senders, 6.0)
    start(register, senders)
    register.producer.acknowledge(register.producer.take())
    senders.abandon()
    register.history.flush()
    processes = [row["process"] for row in load_table(register.directory, "operations").table.to_pylist()]
    assert processes[-1] == 110


def test_what_the_broker_made_up_is_no_command(register):
    register.log.extend([b"who wrote this?", give(register, 1, READ)])
    register.read()
    assert register.rows()[0]["result"] == "null"
