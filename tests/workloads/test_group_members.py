"""A slot of a consumer group, with a client and a clock that the test controls."""

import pytest

from history.reader import load_table
from history.writer import HistoryWriter
from tests.workloads.fake_client import FakeTime
from workloads.clients.base import ClientError, ClientMissingError, Partition, Poll, PolledPartition, PolledRecord
from workloads.clients.optional_interfaces import (
    Assigned,
    CommitEnd,
    CommittedReply,
    Revoked,
    SessionRefusedError,
    group_library,
)
from workloads.groups.member import FAILURES_MAX, MemberPlan, MemberSlot
from workloads.recording import Recorder
from workloads.values import encode_value

P0 = Partition("chaos", 0)
P1 = Partition("chaos", 1)
FIRST, SUCCESSOR = 40, 100


class FakeMember:
    """Does what the test has put down for it."""

    def __init__(self):
        self.polls = []
        self.pending = []
        self.commits = []
        self.ends = []
        self.offsets = {}
        self.errors = []
        self.gone = None

    def poll(self, timeout_s):
        self._raise()
        return self.polls.pop(0) if self.polls else Poll([])

    def changes(self):
        taken, self.pending = self.pending, []
        return taken

    def commit(self, offsets, timeout_s):
        self._raise()
        self.commits.append(dict(offsets))
        return self.ends.pop(0) if self.ends else CommitEnd("ok", None, 3, "m-1", 6)

    def committed(self, partition, timeout_s):
        self._raise()
        return CommittedReply(self.offsets.get(partition), 3)

    def leave(self):
        self._raise()
        self.gone = "left"

    def crash(self):
        self.gone = "crashed"

    def _raise(self):
        if self.errors:
            raise self.errors.pop(0)


class Bench:
    def __init__(self, directory, **changes):
        self.directory = directory
        self.time = FakeTime()
        self.members = []
        self.history = HistoryWriter(directory / "history", "run", "worker0")
        plan = {
            "group": "readers",
            "kept_in": 2,
            "partitions": [P0, P1],
            "process": FIRST,
            "successor": SUCCESSOR,
            "seed": 3,
            "poll_timeout_s": 0.1,
            "poll_interval_s": 0.05,
            "commit_interval_s": 0.0,
            "ask_interval_s": 1e6,
            "lifetime_s": 1e6,
            "away_s": 2.0,
            "crashes": 1.0,
            "request_timeout_s": 1.0,
            **changes,
        }
        self.slot = MemberSlot(MemberPlan(**plan), self._connect, Recorder(self.history, 0, "fake", -1), self.time.now)
        self.slot.step()  # connects, asks once, polls once

    @property
    def member(self):
        return self.members[-1]

    def _connect(self):
        self.members.append(FakeMember())
        return self.members[-1]

    def assigned(self, *partitions, generation=6, member="m-1"):
        self.member.pending.append(Assigned(self.time.now(), member, generation, frozenset(partitions)))

    def polled(self, position, count, partition=P0):
        records = [PolledRecord(position + index, 0, encode_value(position + index)) for index in range(count)]
        self.member.polls.append(Poll([PolledPartition(partition, position, position + count, None, records)], 3))

    def table(self, name):
        self.history.flush()
        return load_table(self.directory, name).table.to_pylist()

    def operations(self, kind):
        return [row for row in self.table("operations") if row["kind"] == kind]


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.history.close()


def test_an_assignment_begins_a_process_and_its_end_is_written_down(bench):
    bench.assigned(P0, P1)
    bench.polled(5, 2)
    bench.slot.step()
    since_ns = bench.time.ns
    bench.member.pending.append(Revoked(bench.time.now(), frozenset({P0, P1})))
    bench.assigned(P1, generation=7)
    bench.slot.step()
    bench.slot.close()

    rows = bench.table("ownerships")
    assert [(row["partition"], row["process"], row["member"], row["generation"]) for row in rows] == [
        (0, FIRST + SUCCESSOR, "m-1", 6),
        (1, FIRST + SUCCESSOR, "m-1", 6),
        (1, FIRST + 2 * SUCCESSOR, "m-1", 7),
    ]
    assert all(row["group"] == "readers" and row["kept_in"] == 2 for row in rows)
    assert rows[0]["since_ns"] < since_ns < rows[0]["until_ns"] < rows[2]["since_ns"] < rows[2]["until_ns"]
    assert bench.member.gone == "left"


def test_what_was_read_is_committed_by_the_member_that_read_it(bench):
    bench.assigned(P0)
    bench.polled(5, 2)
    bench.slot.step()
    bench.slot.step()

    assert bench.member.commits == [{P0: 7}]
    (row,) = (row for row in bench.table("commits") if row["generation"] is not None)
    assert (row["offset"], row["member"], row["generation"], row["partition"]) == (7, "m-1", 6, 0)
    (operation,) = bench.operations("commit")
    assert (operation["op"], operation["status"], operation["node"]) == (row["op"], "ok", 3)
    bench.slot.step()
    assert len(bench.member.commits) == 1, "nothing new was read"


def test_an_attempt_that_may_still_take_effect_is_a_commit_of_its_own(bench):
    bench.member.ends.append(CommitEnd("ok", None, 3, "m-1", 6, in_doubt=True))
    bench.assigned(P0)
    bench.polled(5, 2)
    bench.slot.step()
    bench.slot.step()

    commits = [(row["status"], row["completed_ns"] is None) for row in bench.operations("commit")]
    assert commits == [("ok", False), ("info", True)]
    assert [row["offset"] for row in bench.table("commits") if row["generation"] == 6] == [7, 7]


def test_a_commit_of_unknown_outcome_retires_its_process_and_is_tried_again(bench):
    bench.member.ends.append(CommitEnd("info", "KafkaTimeoutError"))
    bench.assigned(P0)
    bench.polled(5, 2)
    bench.slot.step()
    bench.slot.step()
    bench.slot.step()

    assert bench.member.commits == [{P0: 7}, {P0: 7}]
    first, second = bench.operations("commit")
    assert (first["status"], second["status"]) == ("info", "ok")
    assert second["process"] == first["process"] + SUCCESSOR


def test_what_belongs_to_another_by_now_is_not_committed(bench):
    bench.assigned(P0, P1)
    bench.polled(5, 2)
    bench.slot.step()
    bench.member.pending.append(Revoked(bench.time.now(), frozenset({P0, P1})))
    bench.assigned(P1, generation=7)
    bench.member.ends.append(CommitEnd("fail", "CommitFailedError"))
    bench.slot.step()
    bench.slot.step()

    assert bench.member.commits == [{P0: 7}], "the commit before the poll that reported the change"


def test_what_was_taken_over_is_asked_for_at_once(bench):
    bench.assigned(P0, P1)
    for _ in range(4):
        bench.slot.step()

    asked = [row["partition"] for row in bench.table("commits")[1:]]  # the first is asked whenever a member begins
    assert sorted(asked) == [0, 1]


def test_what_was_not_committed_for_sure_is_asked_for_at_once(bench):
    bench.assigned(P0)
    bench.polled(5, 2)
    bench.member.ends.append(CommitEnd("info", "KafkaTimeoutError"))
    for _ in range(2):
        bench.slot.step()
    assert [row["status"] for row in bench.operations("commit")] == ["info"]
    before = len(bench.operations("committed"))
    bench.slot.step()
    assert len(bench.operations("committed")) == before + 1


def test_a_client_that_starts_again_may_be_anywhere(bench):
    bench.assigned(P0)
    for position in (5, 7, 3):
        bench.polled(position, 2)
        bench.slot.step()

    assert [row["assigned"] for row in bench.table("polls")] == [True, False, True]


def test_a_crash_ends_what_was_owned_without_a_word(tmp_path):
    bench = Bench(tmp_path, lifetime_s=1.0)
    bench.assigned(P0)
    bench.slot.step()
    bench.time.advance(2)
    rest_s = bench.slot.step()

    assert bench.member.gone == "crashed"
    assert 1.0 <= rest_s <= 3.0
    assert [row["partition"] for row in bench.table("ownerships")] == [0]
    bench.slot.step()
    assert len(bench.members) == 2
    bench.history.close()


def test_while_it_is_drained_a_member_neither_commits_nor_departs(tmp_path):
    bench = Bench(tmp_path, lifetime_s=1.0)
    bench.assigned(P0)
    bench.polled(5, 2)
    bench.slot.step()
    bench.slot.drain()
    bench.time.advance(10)
    bench.slot.step()

    assert (bench.member.commits, bench.member.gone, bench.slot.open) == ([], None, 0)
    bench.history.close()


def test_in_the_end_every_committed_offset_is_asked_for(bench):
    bench.member.offsets = {P0: 7}
    bench.slot.begin_final()
    assert bench.slot.unanswered() == [P0, P1]
    bench.member.errors.append(ClientError("NotAnswered"))
    for _ in range(3):
        bench.slot.step()

    assert bench.slot.unanswered() == []
    final = {row["op"]: row["status"] for row in bench.operations("committed") if row["phase"] == "final"}
    assert sorted(final.values()) == ["fail", "ok", "ok"]
    answers = [row for row in bench.table("commits") if final.get(row["op"]) == "ok"]
    assert [(row["partition"], row["offset"]) for row in answers] == [(0, 7), (1, None)]


def test_a_member_polls_on_in_the_end_since_a_rebalance_waits_for_it(bench):
    bench.slot.begin_final()
    for _ in range(3):
        bench.slot.step()
    assert bench.slot.unanswered() == []
    bench.assigned(P0, generation=9)
    bench.member.errors.append(ClientError("NotAnswered"))
    bench.slot.step()
    bench.slot.step()
    assert bench.slot.process() == FIRST + SUCCESSOR, "it has joined again"


def test_a_client_that_only_fails_is_replaced(bench):
    bench.member.errors = [ClientError("KafkaConnectionError")] * (FAILURES_MAX + 1)
    for _ in range(FAILURES_MAX + 1):
        bench.slot.step()

    assert len(bench.members) == 2
    assert bench.members[0].gone == "crashed", "it could not leave either"


def test_a_slot_whose_session_is_refused_stays_empty_until_offsets_are_asked_for_at_the_end(bench):
    bench.member.errors = [SessionRefusedError("InvalidSessionTimeoutError")]
    for _ in range(FAILURES_MAX):
        bench.slot.step()
    assert bench.slot.session_refused
    assert [member.gone for member in bench.members] == ["left"], "it neither joins again nor is replaced"
    bench.slot.begin_final()
    for _ in range(3):
        bench.slot.step()
    assert (bench.slot.unanswered(), len(bench.members)) == ([], 2)


def test_other_failures_refuse_no_session(bench):
    bench.member.errors = [ClientError("GroupCoordinatorNotAvailableError")]
    bench.slot.step()
    assert not bench.slot.session_refused


def test_a_library_that_has_no_members_is_refused_in_one_line():
    class Plain:
        name = "plain"

    with pytest.raises(ClientMissingError, match="plain is not; use kafka-python, aiokafka or confluent-kafka"):
        group_library(Plain())
