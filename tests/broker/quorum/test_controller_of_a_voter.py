"""A controller over its voter (§18.5, §18.6): fetches that wait, and snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.controller import role
from broker.core.controller.node import ControllerNode
from broker.core.controller.requests import metadata_fetches
from broker.core.controller.requests.metadata_fetches import DEADLINE
from broker.core.controller.state import ControllerState
from broker.core.messages import BeginQuorumEpochResponse, FetchPartition, FetchRequest, FetchResponse
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image
from broker.core.metadata.records import METADATA_TOPIC
from broker.core.ports.events import CancelTimer, FlushDone, Reply, RequestReceived, ResponseReceived, Send, SetTimer
from broker.core.quorum import elections, replication
from broker.core.quorum.state import QuorumRole
from broker.core.records import encode_batch
from broker.core.rules.flaws import rules_for
from tests.broker.quorum.voters import END, EPOCH, LAST, ME, OTHER, THIRD, voter
from tests.support.memory_files import MemoryFiles

BROKER = 1
NUMBER = 77
"""Of the request that waits."""


def controller(end_offset: int = 0) -> ControllerState:
    """Of a voter that leads."""
    quorum = voter(QuorumRole.LEADER)
    return ControllerState(quorum.settings, rules_for("K5", ()), quorum.runtime, quorum, Image(end_offset))


# --- QU-19: fetches that wait -----------------------------------------------------------------------------------------


def fetch(state: ControllerState, replica: int, offset: int, max_wait_ms: int = 300) -> None:
    asked = FetchPartition(METADATA_TOPIC, 0, offset, 1 << 20, EPOCH, LAST)
    request = FetchRequest((asked,), replica_id=replica, max_wait_ms=max_wait_ms)
    metadata_fetches.handle(state, RequestReceived(NUMBER, 5, request), request)


def answers(state: ControllerState) -> list[FetchResponse]:
    """The answers to the fetch. Its timer is set as long as it waits."""
    replies = [one for one in state.runtime.effects if isinstance(one, Reply)]
    assert {one.request_id for one in replies} <= {NUMBER}
    timers = [one for one in state.runtime.effects if isinstance(one, SetTimer | CancelTimer)]
    waits = bool(timers) and timers[-1] == SetTimer((DEADLINE, NUMBER), state.runtime.now_ms + 300)
    assert waits is not bool(replies)
    assert (NUMBER in state.fetches) is waits
    return [one.response for one in replies if isinstance(one.response, FetchResponse)]


def test_qu_19_a_fetch_without_news_waits_to_its_deadline() -> None:
    state = controller()
    fetch(state, OTHER, END)
    metadata_fetches.wake(state)
    assert answers(state) == []
    metadata_fetches.timed_out(state, NUMBER)
    (answer,) = answers(state)
    assert (answer.partitions[0].error_code, answer.partitions[0].records) == (ErrorCode.NONE, b"")


def test_qu_19_a_fetch_that_may_not_wait_is_answered_at_once() -> None:
    state = controller()
    fetch(state, OTHER, END, max_wait_ms=0)
    (answer,) = answers(state)
    assert (answer.partitions[0].error_code, answer.partitions[0].records) == (ErrorCode.NONE, b"")


def test_qu_19_records_end_the_wait() -> None:
    state = controller()
    fetch(state, OTHER, END)
    record = encode_batch([(None, b"record")], END, EPOCH, 0)
    state.quorum.log.append_as_leader(record, EPOCH)
    metadata_fetches.wake(state)
    (answer,) = answers(state)
    assert answer.partitions[0].records


def test_qu_19_a_high_watermark_that_moves_ends_the_wait() -> None:
    state = controller()
    fetch(state, OTHER, END)
    state.quorum.high_watermark = 1
    metadata_fetches.wake(state)
    (answer,) = answers(state)
    assert (answer.partitions[0].high_watermark, answer.partitions[0].records) == (1, b"")


def test_qu_19_a_leadership_that_is_lost_ends_the_wait() -> None:
    state = controller()
    fetch(state, BROKER, END)
    elections.become_follower(state.quorum, EPOCH + 1, THIRD)
    metadata_fetches.wake(state)
    (answer,) = answers(state)
    assert answer.partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert answer.partitions[0].current_leader == (THIRD, EPOCH + 1)


# --- QU-20: snapshots -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end_offset", "every", "high_watermark", "taken"),
    [
        pytest.param(2, 2, END, True, id="so many records are committed"),
        pytest.param(2, 3, END, False, id="too few records"),
        pytest.param(2, 2, 1, False, id="one of them is not committed"),
    ],
)
def test_qu_20_a_snapshot_is_due_every_so_many_committed_records(
    end_offset: int, every: int, high_watermark: int, taken: bool
) -> None:
    state = controller(end_offset)
    state.settings = replace(state.settings, metadata_snapshot_records=every)
    state.quorum.high_watermark = high_watermark
    role._snapshot_if_due(state)
    assert (state.quorum.snapshot_id == (end_offset, LAST)) is taken
    assert (state.quorum.log.start_offset == end_offset) is taken


# --- QU-4: what a leader learns from an answer ------------------------------------------------------------------------


def test_qu_4_a_leader_that_learns_of_a_newer_epoch_from_an_answer_to_its_announcement_follows() -> None:
    node = ControllerNode(voter().settings, MemoryFiles(), "one")
    quorum = node.state.quorum
    elections.become_candidate(quorum)
    elections.become_leader(quorum)
    announced = {opened.to: number for number, opened in quorum.runtime.open_requests.items()}
    node.handle(1, ResponseReceived(announced[OTHER], BeginQuorumEpochResponse(ErrorCode.NONE, ME, 1)))
    node.handle(1, FlushDone(replication.FLUSH, None))
    assert node.state.active
    newer = BeginQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, OTHER, 2)
    effects = node.handle(2, ResponseReceived(announced[THIRD], newer))
    assert not node.state.active
    assert (quorum.role, quorum.epoch, quorum.leader) == (QuorumRole.FOLLOWER, 2, OTHER)
    assert [one.to for one in effects if isinstance(one, Send) and isinstance(one.request, FetchRequest)] == [OTHER]
