"""Groups of newer protocols are refused by every broker, with an error that is fatal to clients."""

from __future__ import annotations

import pytest

from broker.core.messages.errors import ErrorCode
from broker.core.messages.outside import ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest
from tests.broker.groups.group_driver import BROKERS, make_cluster


@pytest.mark.parametrize(
    ("request_type", "advice"),
    [(ConsumerGroupHeartbeatRequest, "group.protocol=classic"), (ShareGroupHeartbeatRequest, "use a consumer group")],
)
def test_a_heartbeat_of_a_newer_protocol_is_refused_at_once(request_type: type, advice: str) -> None:
    cluster = make_cluster()
    for broker in BROKERS:
        response = cluster.call(broker, request_type("readers"), limit_ms=1)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert advice in response.error_message
