"""What aiokafka makes of refusals, and of calls that it cancels itself: no worker takes them for answers, or ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install harrow[clients]")

from aiokafka import TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetFetchResponse_v1, OffsetFetchResponse_v3

from workloads.clients.aio.loop import Loop
from workloads.clients.aio.member import AiokafkaMember
from workloads.clients.base import ClientError

pytestmark = pytest.mark.clients

P0 = TopicPartition("chaos", 0)
NOT_COORDINATOR, UNKNOWN_TOPIC = 16, 3


class Coordinator:
    """aiokafka's own reading of an answer, without its connections."""

    group_id = "readers"
    coordinator_id = 3

    def __init__(self, response: Any) -> None:
        self._response = response

    async def _send_req(self, _request: object) -> Any:
        return self._response

    async def fetch_committed_offsets(self, partitions: list[TopicPartition]) -> Any:
        return await GroupCoordinator._do_fetch_commit_offsets(self, partitions)


def asked(response: Any) -> tuple[int | None, int | None]:
    member = AiokafkaMember.__new__(AiokafkaMember)
    member._consumer = SimpleNamespace(_coordinator=Coordinator(response))
    member._observe(member._consumer._coordinator)
    return asyncio.run(member._asked(P0))


def test_an_answer_without_an_error_is_what_the_coordinator_says() -> None:
    assert asked(OffsetFetchResponse_v3(0, [("chaos", [(0, 5, "", 0)])], 0)) == (5, 3)
    assert asked(OffsetFetchResponse_v3(0, [("chaos", [(0, -1, "", 0)])], 0)) == (None, 3)
    assert asked(OffsetFetchResponse_v1([("chaos", [(0, 5, "", 0)])])) == (5, 3)


@pytest.mark.parametrize(
    "response",
    [
        OffsetFetchResponse_v3(0, [], NOT_COORDINATOR),
        OffsetFetchResponse_v3(0, [("chaos", [(0, -1, "", UNKNOWN_TOPIC)])], 0),
        OffsetFetchResponse_v1([("chaos", [(0, -1, "", UNKNOWN_TOPIC)])]),
    ],
)
def test_a_refusal_is_no_answer(response: Any) -> None:
    with pytest.raises(KafkaError):
        asked(response)


def test_a_call_that_is_cancelled_on_its_loop_has_failed() -> None:
    async def cancelled() -> None:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()  # as aiokafka does with what waits for a connection that it closes
        await inner

    loop = Loop("test")
    try:
        with pytest.raises(ClientError, match="CancelledError"):
            loop.call(cancelled(), 15)
    finally:
        loop.close()
