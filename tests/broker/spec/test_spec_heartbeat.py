"""HB-2: the next state of a broker, row by row of the table (§5.2)."""

from __future__ import annotations

import pytest

from broker.core.configuration.settings import Settings
from broker.core.controller.membership import BrokerControlState, next_state
from broker.core.controller.node import ControllerNode
from broker.core.messages import BrokerHeartbeatRequest
from broker.core.metadata.image import BrokerImage, TopicImage
from broker.core.metadata.records import PartitionState
from tests.support.memory_files import MemoryFiles

EPOCH = 10
"""Of the broker's registration: the offset that it must have seen to be unfenced."""

SHUTDOWN_OFFSET = 30


def state_after(
    fenced: bool,
    shutting: bool,
    request: BrokerHeartbeatRequest,
    *,
    leads: bool = False,
    others: tuple[int, ...] = (50,),
) -> BrokerControlState:
    """The next state of broker 1 while the others, from 2 on, are active and have applied metadata up to `others`."""
    settings = Settings(node_id=100, roles=("controller",), voters={100: ("c", 1)}, listeners=(), log_dirs=("/",))
    controller = ControllerNode(settings, MemoryFiles(), "c").state
    broker = BrokerImage(1, EPOCH, "one", (), None, fenced, shutting)
    controller.image.brokers = {1: broker}
    for number in range(2, 2 + len(others)):
        controller.image.brokers[number] = BrokerImage(number, 11, f"{number}", (), None, False, False)
    partition = PartitionState((1, 2), (1, 2), 1 if leads else 2, 0, 0)
    controller.image.topics = {"t": TopicImage("t", "id", {0: partition})}
    controller.metadata_offsets = {1: request.current_metadata_offset, **dict(enumerate(others, 2))}
    controller.shutdown_offsets = {1: SHUTDOWN_OFFSET}
    return next_state(controller, broker, request)


def beat(offset: int = EPOCH, *, fence: bool = False, stop: bool = False) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(1, EPOCH, offset, want_fence=fence, want_shut_down=stop)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(beat(stop=True), BrokerControlState.SHUTDOWN_NOW, id="wants to stop"),
        pytest.param(beat(), BrokerControlState.UNFENCED, id="has caught up"),
        pytest.param(beat(EPOCH - 1), BrokerControlState.FENCED, id="is behind"),
        pytest.param(beat(fence=True), BrokerControlState.FENCED, id="wants to be fenced"),
    ],
)
def test_from_fenced(request_: BrokerHeartbeatRequest, expected: BrokerControlState) -> None:
    assert state_after(True, False, request_) is expected


@pytest.mark.parametrize(
    ("request_", "leads", "expected"),
    [
        pytest.param(beat(), True, BrokerControlState.UNFENCED, id="goes on"),
        pytest.param(beat(fence=True), True, BrokerControlState.FENCED, id="wants to be fenced"),
        pytest.param(beat(fence=True, stop=True), True, BrokerControlState.SHUTDOWN_NOW, id="wants both"),
        pytest.param(beat(stop=True), True, BrokerControlState.CONTROLLED_SHUTDOWN, id="wants to stop and leads"),
        pytest.param(beat(stop=True), False, BrokerControlState.SHUTDOWN_NOW, id="wants to stop and leads nothing"),
    ],
)
def test_from_unfenced(request_: BrokerHeartbeatRequest, leads: bool, expected: BrokerControlState) -> None:
    assert state_after(False, False, request_, leads=leads) is expected


@pytest.mark.parametrize(
    ("leads", "others", "expected"),
    [
        pytest.param(True, (50,), BrokerControlState.CONTROLLED_SHUTDOWN, id="still leads"),
        pytest.param(
            False, (SHUTDOWN_OFFSET - 1,), BrokerControlState.CONTROLLED_SHUTDOWN, id="others have not heard of it"
        ),
        pytest.param(
            False, (50, SHUTDOWN_OFFSET - 1), BrokerControlState.CONTROLLED_SHUTDOWN, id="one has not heard of it"
        ),
        pytest.param(False, (50, SHUTDOWN_OFFSET), BrokerControlState.SHUTDOWN_NOW, id="all have heard of it"),
    ],
)
def test_from_controlled_shutdown(leads: bool, others: tuple[int, ...], expected: BrokerControlState) -> None:
    assert state_after(False, True, beat(stop=True), leads=leads, others=others) is expected
