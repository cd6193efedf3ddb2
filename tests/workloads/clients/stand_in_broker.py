"""A broker of one node that answers clients from memory and misbehaves on command.

It speaks enough of the protocol for kafka-python (by kafka-python's own codec) to append, to read by
assignment and to ask for offsets. A test decides per produce request and partition what happens, so that every
outcome that a client can meet can be had at will, and what was really appended is known.
"""

import contextlib
import enum
import itertools
import socket
import struct
import threading
from collections.abc import Callable

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka.record.memory_records import MemoryRecords

NODE = 7
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
EARLIEST = -2
VERSIONS = {ProduceRequest: 9, FetchRequest: 12, ListOffsetsRequest: 5, MetadataRequest: 8}
VERSIONS |= {ApiVersionsRequest: 2, InitProducerIdRequest: 4, OffsetForLeaderEpochRequest: 3}
REQUESTS = {request.API_KEY: request for request in VERSIONS}
APPEND = 0


class Trouble(enum.Enum):
    """What can happen to a produce request besides an answer."""

    CUT_BEFORE_APPEND = "the connection ends, nothing was appended"
    CUT_AFTER_APPEND = "the connection ends after the append"
    APPEND_THEN_REFUSE = "appended, and answered NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    SILENCE = "appended, and never answered"


class StandInBroker:
    """Serves from the moment it is made until `close`."""

    def __init__(self, topics: dict[str, int]) -> None:
        self.topics = topics
        self.on_produce: Callable[[str, int, list[bytes]], int | Trouble] = lambda *_: APPEND
        """Says what becomes of a batch: 0 to append it, an error code to refuse it, or trouble."""
        self.stale_end: dict[tuple[str, int], int] = {}
        """Ends that are answered instead of the true ones."""
        self._logs: dict[tuple[str, int], list[tuple[int, int, bytes]]] = {}
        self._known: dict[tuple[object, ...], int] = {}
        self._lock = threading.Condition()
        self._producers = itertools.count(1)
        self._connections: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut all connections and accept no more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self._listener.close()
        for connection in list(self._connections):
            self._cut(connection)

    def values(self, topic: str, partition: int) -> list[bytes]:
        """What the log holds."""
        with self._lock:
            return [value for _, _, batch in self._logs.get((topic, partition), []) for value in values_in(batch)]

    def end(self, topic: str, partition: int) -> int:
        """The log end offset, which is the high watermark here."""
        batches = self._logs.get((topic, partition), [])
        return batches[-1][0] + batches[-1][1] if batches else 0

    def truncate(self, topic: str, partition: int) -> None:
        """Lose the whole log."""
        with self._lock:
            self._logs.pop((topic, partition), None)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(int.from_bytes(size, "big"))
                answer = self._answer(frame)
                if answer is None:
                    self._cut(connection)
                elif answer:
                    connection.sendall(answer)
        self._connections.discard(connection)

    def _cut(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, frame: bytes) -> bytes | None:
        """The framed response; empty for none at all, None to cut the connection."""
        key, version, correlation = struct.unpack_from(">hhi", frame)
        kind = REQUESTS.get(key)
        if kind is None:
            return None
        if version > VERSIONS[kind]:
            response = self._api_versions(error=35)
            version = 0
        else:
            request = kind.decode(frame, version=version, header=True)
            with self._lock:
                response = getattr(self, f"_{kind.__name__.removesuffix('Request').lower()}")(request)
        if response is None or response is Trouble.SILENCE:
            return b""
        if isinstance(response, Trouble):
            return None
        response.API_VERSION = version
        response.with_header(correlation_id=correlation)
        return bytes(response.encode(header=True, framed=True))

    def _apiversions(self, _request):
        return self._api_versions(error=0)

    def _api_versions(self, error):
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=kind.API_KEY, min_version=0, max_version=most)
            for kind, most in VERSIONS.items()
        ]
        return ApiVersionsResponse(error_code=error, api_keys=keys, throttle_time_ms=0)

    def _metadata(self, _request):
        topic_kind = MetadataResponse.MetadataResponseTopic
        host, port = self.address.split(":")
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[MetadataResponse.MetadataResponseBroker(node_id=NODE, host=host, port=int(port), rack=None)],
            cluster_id="stand-in",
            controller_id=NODE,
            topics=[
                topic_kind(
                    error_code=0,
                    name=name,
                    is_internal=False,
                    partitions=[
                        topic_kind.MetadataResponsePartition(
                            error_code=0,
                            partition_index=index,
                            leader_id=NODE,
                            leader_epoch=0,
                            replica_nodes=[NODE],
                            isr_nodes=[NODE],
                            offline_replicas=[],
                        )
                        for index in range(count)
                    ],
                )
                for name, count in self.topics.items()
            ],
        )

    def _initproducerid(self, _request):
        return InitProducerIdResponse(
            throttle_time_ms=0, error_code=0, producer_id=next(self._producers), producer_epoch=0
        )

    def _produce(self, request):
        topics = []
        for topic in request.topic_data:
            partitions = []
            for data in topic.partition_data:
                batch = bytes(data.records)
                wanted = self.on_produce(topic.name, data.index, values_in(batch))
                error, offset = 0, -1
                if isinstance(wanted, int) and wanted != APPEND:
                    error = wanted
                elif wanted is not Trouble.CUT_BEFORE_APPEND:
                    offset = self._append(topic.name, data.index, batch)
                if wanted is Trouble.APPEND_THEN_REFUSE:
                    error = 20
                elif isinstance(wanted, Trouble):
                    return wanted
                partitions.append(
                    ProduceResponse.TopicProduceResponse.PartitionProduceResponse(
                        index=data.index,
                        error_code=error,
                        base_offset=-1 if error else offset,
                        log_append_time_ms=-1,
                        log_start_offset=0,
                        record_errors=[],
                        error_message=None,
                    )
                )
            topics.append(ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=partitions))
        return ProduceResponse(responses=topics, throttle_time_ms=0) if request.acks != 0 else None

    def _append(self, topic: str, partition: int, batch: bytes) -> int:
        header = BATCH_HEADER.unpack_from(batch)
        producer, epoch, sequence, count = header[9:13]
        identity = (topic, partition, producer, epoch, sequence)
        if producer >= 0 and identity in self._known:
            return self._known[identity]
        offset = self.end(topic, partition)
        stored = offset.to_bytes(8, "big") + batch[8:12] + (0).to_bytes(4, "big") + batch[16:]
        self._logs.setdefault((topic, partition), []).append((offset, count, stored))
        self._known[identity] = offset
        self._lock.notify_all()
        return offset

    def _fetch(self, request):
        response_kind = FetchResponse.FetchableTopicResponse
        self._lock.wait_for(lambda: self._has_news(request), request.max_wait_ms / 1000)
        topics = [
            response_kind(
                topic=topic.topic,
                partitions=[self._fetched(topic.topic, partition) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
        return FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=topics)

    def _has_news(self, request) -> bool:
        return any(
            self.end(topic.topic, each.partition) != each.fetch_offset
            for topic in request.topics
            for each in topic.partitions
        )

    def _fetched(self, topic, partition):
        end = self.end(topic, partition.partition)
        offset = partition.fetch_offset
        batches = self._logs.get((topic, partition.partition), [])
        stored = [batch for base, count, batch in batches if base + count > offset]
        return FetchResponse.FetchableTopicResponse.PartitionData(
            partition_index=partition.partition,
            error_code=1 if offset > end else 0,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=b"".join(stored[:100]),
        )

    def _listoffsets(self, request):
        topic_kind = ListOffsetsResponse.ListOffsetsTopicResponse
        return ListOffsetsResponse(
            throttle_time_ms=0,
            topics=[
                topic_kind(
                    name=topic.name,
                    partitions=[
                        topic_kind.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            error_code=0,
                            timestamp=-1,
                            offset=0 if each.timestamp == EARLIEST else self._answered_end(topic.name, each),
                            leader_epoch=0,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    def _answered_end(self, topic, asked):
        end = self.end(topic, asked.partition_index)
        return self.stale_end.get((topic, asked.partition_index), end)

    def _offsetforleaderepoch(self, request):
        topic_kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        return OffsetForLeaderEpochResponse(
            throttle_time_ms=0,
            topics=[
                topic_kind(
                    topic=topic.topic,
                    partitions=[
                        topic_kind.EpochEndOffset(
                            error_code=0,
                            partition=each.partition,
                            leader_epoch=0,
                            end_offset=self.end(topic.topic, each.partition),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )


def values_in(batch: bytes) -> list[bytes]:
    """The values of a stored or produced batch."""
    return [bytes(record.value) for records in MemoryRecords(batch) for record in records]
