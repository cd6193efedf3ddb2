"""A simulated client that writes records of a few keys to a compacted topic of its own, beside the main one.

What compaction leaves of them is judged by observers. The client numbers its batches, sends one until it has an answer,
and begins anew, with another producer id, where a broker refuses to go on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from broker.core.messages import (
    AnyRequest,
    AnyResponse,
    CreateTopicsRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    NewTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from simulation.engine.choices import Stream
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.workload.batches import Producer, encode_values
from simulation.workload.clients import LeaderCache

NAME = "keyed"

CONFIGS = (("cleanup.policy", "compact"), ("segment.bytes", "300"), ("min.cleanable.dirty.ratio", "0"))
"""Settings of a topic whose segments are soon full, and compacted at once."""

_STREAM = "compaction"
_INTERVAL_MS, _RETRY_MS = 300, 250
_TIMEOUT_MS, _PATIENCE_MS = 1_500, 1_000
_BATCH_MAX = 3
_ENDS = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID}
"""Errors after which a producer id is of no more use."""


class KeyedTopic:
    """See the module."""

    def __init__(self, client_id: int, brokers: Sequence[int], replication_factor: int) -> None:
        self.client_id = client_id
        self.stopped = False
        self._route = LeaderCache(brokers)
        self._factor = replication_factor
        self._request = 0
        self._leader = -1
        self._producer_id = -1
        self._sequence = 0
        self._sent = 0
        self._values: tuple[int, ...] = ()
        self._batch = b""  # of these values; it is repeated as it is

    def start(self, cluster: SimulatedCluster) -> None:
        """Begin with the first step."""
        cluster.after(_INTERVAL_MS * MS, self.timer, cluster, "next")

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Ask for what is not known yet, or send a batch."""
        if self.stopped:
            return
        if self._producer_id < 0:
            self._send(cluster, self._route.ask(), InitProducerIdRequest())
        elif self._leader < 0:
            self._send(cluster, self._route.ask(), MetadataRequest(((NAME, ""),)))
        else:
            if not self._batch:
                count = 1 + cluster.choices[_STREAM].draw("records of a batch", _BATCH_MAX)
                self._values = tuple(range(self._sent, self._sent + count))
                producer = Producer(self._producer_id, 0, self._sequence)
                self._batch = encode_values(self._values, producer, keyed=True, first_ms=cluster.now_us // MS)
            part = ProducePartition(NAME, 0, self._batch)
            self._send(cluster, self._leader, ProduceRequest(-1, _PATIENCE_MS, (part,)))

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Take what was asked for, and go on soon; after the answer to a batch with the next one."""
        if request_id != self._request or self.stopped:
            return
        pause_ms = _RETRY_MS
        match response:
            case InitProducerIdResponse(error_code=ErrorCode.NONE):
                self._producer_id, self._sequence = response.producer_id, 0
            case MetadataResponse() if response.topics and response.topics[0].error_code == ErrorCode.NONE:
                self._leader = response.topics[0].partitions[0].leader
            case MetadataResponse():
                topic = NewTopic(NAME, 1, self._factor, configs=CONFIGS)
                self._send(cluster, self._route.ask(), CreateTopicsRequest((topic,), _PATIENCE_MS))
                return
            case ProduceResponse():
                pause_ms = self._produced(cluster.choices[_STREAM], response.partitions[0].error_code)
            case _:
                self._leader = -1
        cluster.after(pause_ms * MS, self.timer, cluster, "next")

    def _produced(self, stream: Stream, error: int) -> int:
        """Note how a batch fared; returns the pause before the next request, in ms."""
        if error == ErrorCode.NONE:
            self._sequence += len(self._values)
            self._sent += len(self._values)
            self._batch = b""
            return _INTERVAL_MS // 2 + stream.draw("pause", _INTERVAL_MS)
        if error in _ENDS:
            self._producer_id, self._batch = -1, b""
        self._leader = -1
        return _RETRY_MS

    def _send(self, cluster: SimulatedCluster, to: int, request: AnyRequest) -> None:
        self._request += 1
        cluster.send_from_client(self.client_id, self._request, to, request, _TIMEOUT_MS)
