"""Checks the ids that producers get (P-54): each id is given once, and nobody is sent away while there are some."""

from __future__ import annotations

from broker.core.messages import AllocateProducerIdsResponse, InitProducerIdResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Event, ResponseReceived
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.properties import Violation


def answered(known: Knowledge, broker_id: int, event: Event, response: InitProducerIdResponse) -> None:
    """P-54. `event`: upon which the broker answers."""
    if response.error_code == ErrorCode.NONE:
        before = known.producer_ids.get(response.producer_id)
        known.producer_ids[response.producer_id] = broker_id
        if before is not None:
            raise Violation(
                "P-54", f"broker {broker_id} gave a producer the id {response.producer_id}, as broker {before} has done"
            )
        return
    ids = event.response if isinstance(event, ResponseReceived) else None
    if isinstance(ids, AllocateProducerIdsResponse) and ids.error_code == ErrorCode.NONE and ids.producer_id_len:
        raise Violation(
            "P-54",
            f"broker {broker_id} sent a producer away with {ErrorCode(response.error_code).name} when it got ids from "
            f"{ids.producer_id_start} on",
        )
