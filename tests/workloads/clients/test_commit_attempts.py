"""Commits and answers that a group member's client really sent and received, from kafka-python's own messages."""

import pytest
from kafka.future import Future
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse

from workloads.clients.base import Partition
from workloads.clients.classify import Local
from workloads.clients.commits import CommitAttempt, classify_commit
from workloads.clients.kafka_python.member import GroupWatch, node_number

P0 = Partition("chaos", 0)
UNKNOWN = 15  # COORDINATOR_NOT_AVAILABLE: perhaps written, and not yet replicated
DEPOSED = 16  # NOT_COORDINATOR
OLD_GENERATION = 22


def attempt(*ends):
    return CommitAttempt({P0: 7}, 1, "m-1", 6, set(ends))


@pytest.mark.parametrize(
    ("attempts", "returned", "refused_here", "status"),
    [
        ([attempt(0)], True, False, "ok"),
        ([attempt(UNKNOWN), attempt(0)], True, False, "ok"),
        ([attempt(OLD_GENERATION)], False, False, "fail"),
        ([attempt(DEPOSED)], False, False, "info"),
        ([attempt(UNKNOWN), attempt(OLD_GENERATION)], False, False, "info"),
        ([attempt(Local.NO_ANSWER)], False, False, "info"),
        ([attempt(0, OLD_GENERATION)], False, False, "info"),
        ([attempt(0)], False, False, "info"),
        ([], False, True, "fail"),
        ([], False, False, "info"),
    ],
)
def test_a_commit_failed_only_if_every_attempt_certainly_did(attempts, returned, refused_here, status):
    assert classify_commit(attempts, returned=returned, refused_here=refused_here) == status


@pytest.mark.parametrize(("node", "number"), [("coordinator-3", 3), (2, 2), (None, None), ("bootstrap-0", None)])
def test_a_coordinator_is_a_broker(node, number):
    assert node_number(node) == number


def commit_request(offset):
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id="readers",
        generation_id_or_member_epoch=6,
        member_id="m-1",
        topics=[topic(name="chaos", partitions=[partition])],
    )


def commit_response(code):
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    partition = topic.OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(throttle_time_ms=0, topics=[topic(name="chaos", partitions=[partition])])


def test_attempts_are_matched_by_what_they_commit():
    watch, sent = GroupWatch(), {}
    for offset in (7, 8, 8):
        future = Future()
        watch.watch("coordinator-2", commit_request(offset), future)
        sent.setdefault(offset, []).append(future)
    sent[8][1].success(commit_response(0))

    first, second = watch.take_attempts({P0: 8})

    assert first.ends == {Local.NO_ANSWER}
    assert (second.succeeded, second.node, second.member, second.generation) == (True, 2, "m-1", 6)
    assert watch.take_attempts({P0: 7}) == [], "they are forgotten"


def test_a_request_that_never_left_is_no_attempt():
    watch, future = GroupWatch(), Future()
    future.failure(ConnectionError())
    watch.watch("coordinator-2", commit_request(7), future)
    assert watch.take_attempts({P0: 7}) == []


def fetch_response(offset, code=0, group_code=0):
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    topic = group.OffsetFetchResponseTopics
    partition = topic.OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, metadata="", error_code=code
    )
    groups = [group(group_id="readers", topics=[topic(name="chaos", partitions=[partition])], error_code=group_code)]
    response = OffsetFetchResponse[8](throttle_time_ms=0, groups=groups)
    assert response.API_VERSION == 8
    return response


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (fetch_response(7), (7, 2)),
        (fetch_response(-1), (None, 2)),
        (fetch_response(-1, code=3), None),
        (fetch_response(-1, group_code=14), None),
    ],
    ids=["offset", "none", "unknown-topic", "loading"],
)
def test_only_an_answer_without_error_says_what_is_committed(response, answer):
    watch, future = GroupWatch(), Future()
    watch.watch("coordinator-2", OffsetFetchRequest(group_id="readers"), future)
    future.success(response)
    assert watch.answer(P0, 0) == answer
    assert watch.answer(P0, 1 << 62) is None, "an answer to an earlier query"
