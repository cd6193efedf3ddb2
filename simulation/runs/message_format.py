"""Formats messages between nodes for traces; messages without information, such as empty fetches, are omitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.core.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AnyRequest,
    AnyResponse,
    BeginQuorumEpochRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreateTopicsRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
    VoteRequest,
    VoteResponse,
)
from broker.core.messages.errors import ErrorCode
from simulation.workload.clients import TOPIC
from simulation.workload.final_logs import records_of


def format_request(request: AnyRequest) -> str | None:
    """A request in a few words; None for one that carries no information."""
    formatter = _REQUESTS.get(type(request))
    return formatter(request) if formatter is not None else None


def format_response(response: AnyResponse | None) -> str | None:
    """A response in a few words; None for one that carries no information."""
    formatter = _RESPONSES.get(type(response))
    return formatter(response) if formatter is not None else None


def _produce(request: ProduceRequest) -> str:
    return "Produce " + ", ".join(f"{_values(part.records)} to p{part.partition}" for part in request.partitions)


def _produced(response: ProduceResponse) -> str:
    return "Produce: " + ", ".join(
        f"p{part.partition} at {part.base_offset}" if part.error_code == ErrorCode.NONE else _error(part.error_code)
        for part in response.partitions
    )


def _fetch(request: FetchRequest) -> str | None:
    if request.replica_id < 0:
        return None
    parts = [part for part in request.partitions if part.topic == TOPIC]
    wanted = ", ".join(f"p{part.partition} from {part.fetch_offset}" for part in parts)
    return f"Fetch {wanted}" if parts else None


def _fetched(response: FetchResponse) -> str | None:
    parts = []
    for part in response.partitions:
        name = f"p{part.partition}"
        if part.error_code != ErrorCode.NONE:
            parts.append(f"{name} {_error(part.error_code)}")
        elif part.diverging_epoch is not None:
            parts.append(f"{name} diverges: epoch {part.diverging_epoch[0]} ends at {part.diverging_epoch[1]}")
        elif part.records and part.topic == TOPIC:
            parts.append(f"{name} {_values(part.records)}, high watermark {part.high_watermark}")
        elif part.records:
            parts.append("metadata")
    return f"Fetch: {', '.join(parts)}" if parts else None


def _alter(request: AlterPartitionRequest) -> str:
    return "AlterPartition " + ", ".join(
        f"p{part.partition} ISR {[broker for broker, _ in part.new_isr]}"
        f" (epochs {part.leader_epoch}, {part.partition_epoch})"
        for part in request.partitions
    )


def _altered(response: AlterPartitionResponse) -> str:
    parts = [
        f"p{part.partition} ISR {list(part.isr)} (epochs {part.leader_epoch}, {part.partition_epoch})"
        if part.error_code == ErrorCode.NONE
        else f"p{part.partition} {_error(part.error_code)}"
        for part in response.partitions
    ]
    return f"AlterPartition: {', '.join(parts) if parts else _error(response.error_code)}"


def _vote(request: VoteRequest) -> str:
    kind = "pre-vote" if request.pre_vote else "vote"
    end = f"{request.last_epoch_end_offset} of epoch {request.last_epoch}"
    return f"asks for a {kind} in epoch {request.candidate_epoch}, log ends at {end}"


def _voted(response: VoteResponse) -> str:
    return "vote granted" if response.vote_granted else f"vote refused, epoch {response.leader_epoch}"


def _heartbeat(request: BrokerHeartbeatRequest) -> str | None:
    wants = [word for word, is_so in (("fence", request.want_fence), ("shut down", request.want_shut_down)) if is_so]
    return f"heartbeat, wants to {' and '.join(wants)}" if wants == ["shut down"] else None


def _beaten(response: BrokerHeartbeatResponse) -> str | None:
    return f"heartbeat: {_error(response.error_code)}" if response.error_code else None


def _log_info(response: GetReplicaLogInfoResponse) -> str:
    return "log info: " + ", ".join(
        f"p{part.partition} ends at {part.log_end_offset} of epoch {part.last_written_leader_epoch}"
        for part in response.partitions
    )


def _listed(response: ListOffsetsResponse) -> str | None:
    wrong = [part for part in response.partitions if part.error_code]
    return f"ListOffsets: {_error(wrong[0].error_code)}" if wrong else None


def _registered(response: BrokerRegistrationResponse) -> str:
    if response.error_code:
        return f"registration: {_error(response.error_code)}"
    return f"registered, broker epoch {response.broker_epoch}"


_REQUESTS: dict[type, Callable[[Any], str | None]] = {
    ProduceRequest: _produce,
    FetchRequest: _fetch,
    AlterPartitionRequest: _alter,
    VoteRequest: _vote,
    BrokerHeartbeatRequest: _heartbeat,
    BrokerRegistrationRequest: lambda request: f"registers, previous epoch {request.previous_broker_epoch}",
    BeginQuorumEpochRequest: lambda request: f"leads the quorum in epoch {request.leader_epoch}",
    EndQuorumEpochRequest: lambda request: f"no longer leads the quorum in epoch {request.leader_epoch}",
    GetReplicaLogInfoRequest: lambda _: "asks how far logs go",
    CreateTopicsRequest: lambda request: f"CreateTopics {request.topics[0].name}",
}

_RESPONSES: dict[type, Callable[[Any], str | None]] = {
    ProduceResponse: _produced,
    FetchResponse: _fetched,
    AlterPartitionResponse: _altered,
    VoteResponse: _voted,
    BrokerHeartbeatResponse: _beaten,
    BrokerRegistrationResponse: _registered,
    GetReplicaLogInfoResponse: _log_info,
    ListOffsetsResponse: _listed,
}


def _error(code: int) -> str:
    return ErrorCode(code).name


def _values(records: bytes) -> str:
    return _ranges([row.value for row in records_of(records) if row.value is not None])


def _ranges(values: Sequence[int]) -> str:
    """Write runs of numbers as "3-5"."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs) or "nothing"
