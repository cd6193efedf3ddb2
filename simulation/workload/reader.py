"""The simulated reader: reads all partitions by assignment, asks where their logs end, looks up records by time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from broker.core.messages import (
    AnyResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from broker.core.messages.errors import ErrorCode
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.workload.clients import RETRY_MS, TOPIC, LeaderCache
from simulation.workload.recording import OperationRow, PollRow, SimulatedHistory

_UNLIMITED = 1 << 16
"""More bytes than a simulated log has."""


class SimulatedReader:
    """One logical process that reads all partitions by assignment, and sometimes asks for their ends."""

    def __init__(
        self,
        client_id: int,
        partitions: int,
        brokers: Sequence[int],
        history: SimulatedHistory,
        interval_ms: int,
        *,
        looks_up_times: bool = False,
        fetch_bytes: int = 0,
    ) -> None:
        """`fetch_bytes`: how many bytes it asks for before the final phase; 0: more than there are."""
        self.client_id = client_id
        self.partitions = partitions
        self.history = history
        self.interval_ms = interval_ms
        self.looks_up_times = looks_up_times
        self.fetch_bytes = fetch_bytes
        self.process = history.new_process()
        self.route = LeaderCache(brokers)
        self.positions = dict.fromkeys(range(partitions), 0)
        self.phase = "main"
        self.stopped = False
        self.polls_left = 1 << 30
        self._assigned = dict.fromkeys(range(partitions), True)
        self._times: dict[int, list[int]] = {}  # by partition: the timestamps of the records last read
        self._out_of_range: dict[int, bool] = {}  # partitions whose log does not have the offset
        self._request = 0
        self._asked = ""
        self._invoked_us = 0
        self._turn = 0
        self._void = 0  # requests up to this one were sent before the last seek
        self._asked_of: tuple[int, int] = (0, 0)  # partition, broker

    def start(self, cluster: SimulatedCluster) -> None:
        """Begin to read."""
        cluster.after(0, self.timer, cluster, "next")

    def assign_from_start(self) -> None:
        """Begin again at offset 0 of every partition, for the final phase."""
        self.positions = dict.fromkeys(range(self.partitions), 0)
        self._assigned = dict.fromkeys(range(self.partitions), True)
        self.phase = "final"
        self._void = self._request

    def give_up(self, cluster: SimulatedCluster) -> None:
        """End the run."""
        self.stopped = True

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Request records or the end of a partition."""
        if key != "next" or self.stopped or self.polls_left <= 0:
            return
        self._turn += 1
        partition = self._turn % self.partitions
        self._invoked_us = cluster.now_us
        if partition not in self.route.leaders:
            self._asked = "metadata"
            self._send(cluster, self.route.ask(), MetadataRequest(((TOPIC, ""),)))
            return
        leader, epoch = self.route.leaders[partition]
        self._asked_of = (partition, leader)
        self.polls_left -= 1
        if self._out_of_range.get(partition, False):
            self._asked = "earliest"
            self._send(cluster, leader, ListOffsetsRequest((ListOffsetsPartition(TOPIC, partition, -2, epoch),)))
        elif self.phase == "main" and cluster.choices["workload"].draw("what to ask", 8) == 7:
            self._ask_for_offset(cluster, partition, leader, epoch)
        else:
            self._asked = "poll"
            limit = self.fetch_bytes if self.phase == "main" and self.fetch_bytes else _UNLIMITED
            part = FetchPartition(TOPIC, partition, self.positions[partition], limit, epoch)
            self._send(cluster, leader, FetchRequest((part,), max_wait_ms=100, max_bytes=limit))

    def _ask_for_offset(self, cluster: SimulatedCluster, partition: int, leader: int, epoch: int) -> None:
        """Ask for the end of the log; sometimes for the first record of a time, whose answer the observer checks."""
        stream = cluster.choices["workload"]
        times = self._times.get(partition)
        self._asked, timestamp = "latest", -1
        if self.looks_up_times and times and stream.draw("look up a time", 2):
            self._asked, timestamp = "time", stream.pick("which time", times)
        part = ListOffsetsPartition(TOPIC, partition, timestamp, epoch)
        self._send(cluster, leader, ListOffsetsRequest((part,)))

    def _send(self, cluster: SimulatedCluster, to: int, request: object) -> None:
        self._request += 1
        cluster.send_from_client(self.client_id, self._request, to, request, 600)  # type: ignore[arg-type]

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Record the answer and schedule the next request."""
        if request_id != self._request:
            return
        pause_ms = self.interval_ms
        if isinstance(response, MetadataResponse):
            self.route.learn(response)
            pause_ms = 1 if self.route.leaders else RETRY_MS
        elif self._asked != "metadata" and request_id > self._void:
            partition, leader = self._asked_of
            if isinstance(response, FetchResponse) and response.partitions[0].error_code == ErrorCode.NONE:
                self._polled(cluster, partition, leader, response)
            elif isinstance(response, ListOffsetsResponse) and response.partitions[0].error_code == ErrorCode.NONE:
                if self._asked == "earliest":
                    self._begin_at(partition, response.partitions[0].offset)
                    cluster.after(MS, self.timer, cluster, "next")
                    return
                if self._asked == "latest":
                    op = self._operation(cluster, "latest", leader)
                    end = response.partitions[0].offset
                    self.history.polls.append(PollRow(op, TOPIC, partition, None, end, end, 0, False))
            else:
                self._refused(partition, response)
        elif response is None:
            pause_ms = RETRY_MS
        cluster.after(max(1, pause_ms) * MS, self.timer, cluster, "next")

    def _begin_at(self, partition: int, log_start: int) -> None:
        """Continue at the log start: records before it have been deleted."""
        self._out_of_range[partition] = False
        if self.positions[partition] < log_start:
            self.positions[partition] = log_start
            self._assigned[partition] = True

    def _refused(self, partition: int, response: AnyResponse | None) -> None:
        """Look up the leader again, and the log start too if the offset is not in the log."""
        self.route.leaders.pop(partition, None)
        if isinstance(response, FetchResponse):
            self._out_of_range[partition] = response.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def _operation(self, cluster: SimulatedCluster, kind: str, node: int) -> int:
        op = self.history.new_op()
        self.history.operations.append(
            OperationRow(
                op, self.process, kind, "ok", None, node, self.phase, self._invoked_us * MS, cluster.now_us * MS
            )
        )
        return op

    def _polled(self, cluster: SimulatedCluster, partition: int, leader: int, response: FetchResponse) -> None:
        part = response.partitions[0]
        position = self.positions[partition]
        op = self._operation(cluster, "poll", leader)
        assigned, self._assigned[partition] = self._assigned[partition], False
        self.positions[partition], times = self.history.polled(op, part, position, assigned=assigned)
        self._times[partition] = times or self._times.get(partition, [])
