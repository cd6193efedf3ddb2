"""Checks that the answer to a fetch has no more bytes than were asked for (P-73, KIP-74).

Only the first batch of an answer may be larger than that, so that a reader gets past it.
"""

from __future__ import annotations

from broker.core.messages import AnyResponse, FetchRequest, FetchResponse
from broker.core.records import PREFIX_BYTES
from simulation.invariants.knowledge import BrokerMirror
from simulation.invariants.properties import Violation


def answered(broker: BrokerMirror, request_id: int, response: AnyResponse, bytes_max: int) -> None:
    """P-73, before it is forgotten what was asked. `bytes_max`: what the broker puts into one answer at most."""
    request = broker.asked.get(request_id)
    if not isinstance(response, FetchResponse) or not isinstance(request, FetchRequest):
        return
    parts = [part for part in response.partitions if part.records]
    if not parts:
        return
    asked = {(part.topic, part.topic_id, part.partition): part.max_bytes for part in request.partitions}
    total = 0
    for part in parts:
        size = len(part.records)
        is_first_batch = not total and size == int.from_bytes(part.records[8:PREFIX_BYTES], "big") + PREFIX_BYTES
        total += size
        of_part = asked.get((part.topic, part.topic_id, part.partition), bytes_max)
        if not is_first_batch and (size > of_part or total > min(request.max_bytes, bytes_max)):
            raise Violation(
                "P-73",
                f"broker {broker.broker_id} answers with {size} bytes of {part.topic}-{part.partition}, {total} in "
                f"all; it was asked for {of_part}, and {request.max_bytes} in all, and may send {bytes_max}",
            )
