"""A fake environment for the runner: a fake cluster, and client processes that only print a worker's reports."""

from __future__ import annotations

import io
import json
import queue
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.environments.base import LogRecord, NodePlan, ReplicaState, Traits
from nemesis.capabilities.cluster import PartitionView, VoterView
from tests.support.fake_cluster import FakeCluster
from workloads.values import encode_value


class FakeStdout:
    """Lines, as they are said; ends when the process does."""

    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[bytes]:
        while (line := self.lines.get()) is not None:
            yield line


class FakeStdin:
    def __init__(self, process: FakeProcess) -> None:
        self._process = process

    def write(self, data: bytes) -> None:
        self._process.obey(data.decode().strip())

    def flush(self) -> None:
        pass


class FakeProcess:
    """A worker that has acknowledged more each time it is asked, or the process that creates the topic."""

    pid = 4711

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self.status: int | None = None
        self.stdin = FakeStdin(self)
        self.stdout = FakeStdout()
        self.terminated = False
        self.heard: list[str] = []
        self._acked = 0
        if "workloads.worker" in self.command:
            self.say("ready")
            self._count()
        else:
            self.end(0)

    def obey(self, command: str) -> None:
        self.heard.append(command)
        if command == "drain":
            self.say("drained")
        elif command.startswith("final"):
            self.say("final", complete=True, missing=[])

    def poll(self) -> int | None:
        if self.status is None:
            self._count()
        return self.status

    def wait(self, timeout_s: float) -> int:
        assert self.status is not None, "nobody asked it to end"
        return self.status

    def terminate(self) -> None:
        self.terminated = True
        self.end(0)

    def kill(self) -> None:
        self.end(-9)

    def end(self, status: int) -> None:
        if self.status is None:
            self.status = status
            self.stdout.lines.put(None)

    def _count(self) -> None:
        self._acked += 1
        self.say("counts", records_acked=self._acked)

    def say(self, event: str, **values: object) -> None:
        self.stdout.lines.put(json.dumps({"event": event, **values}).encode() + b"\n")


class FakeAddresses:
    def bind(self, node_id: int, listener: str) -> tuple[str, int]:
        return f"10.0.0.{node_id}", 9092

    def reach(self, source: int, node_id: int, listener: str) -> tuple[str, int]:
        return self.bind(node_id, listener)


class FakeEnvironment:
    capabilities = frozenset({"process", "starvation", "network", "page-cache-loss"})
    mechanisms = {"network": "by wishing"}
    addresses = FakeAddresses()

    def __init__(self, directory: Path, cluster: FakeCluster | None = None) -> None:
        self.cluster = cluster or FakeCluster()
        self.plans = [
            NodePlan(node.node_id, node.role, directory, directory, directory / "socket", "files")
            for node in self.cluster.nodes.values()
        ]
        self.processes: list[FakeProcess] = []
        self.is_up = False
        self.torn_down = 0
        self.breaks: Exception | None = None

    def set_up(self) -> None:
        if self.breaks is not None:
            raise self.breaks
        self.is_up = True

    def spawn_client(self, command: Sequence[str], log: Path) -> FakeProcess:
        self.processes.append(FakeProcess(command))
        return self.processes[-1]

    def tear_down(self) -> None:
        self.is_up = False
        self.torn_down += 1

    @property
    def workers(self) -> list[FakeProcess]:
        return [process for process in self.processes if "workloads.worker" in process.command]


class FakeSystem:
    """Three partitions of ten records each, the same on every broker."""

    name = "fake"
    traits = Traits()

    def __init__(self, environment: FakeEnvironment) -> None:
        self._cluster = environment.cluster

    def replicas(self, plan: NodePlan) -> Sequence[ReplicaState]:
        if plan.role == "controller" or not self._cluster.nodes[plan.node_id].is_ready():
            return ()
        return [self._replica(view, plan.node_id) for view in self._cluster.partitions()]

    def unfit(self, plans: Sequence[NodePlan]) -> str | None:
        """Nothing: it has no features."""
        return None

    def voters(self, plans: Sequence[NodePlan]) -> list[VoterView]:
        asked = {plan.node_id for plan in plans}
        return [voter for voter in self._cluster.voters() if voter.controller in asked]

    def _replica(self, view: PartitionView, broker: int) -> ReplicaState:
        role = "leader" if view.leader == broker else "follower"
        return ReplicaState(
            view.topic, view.partition, role, view.leader, view.leader_epoch, 0, 10, 10, view.isr, view.elr, 5
        )

    def log(self, plan: NodePlan, topic: str, partition: int) -> Iterator[LogRecord]:
        for offset in range(10):
            yield LogRecord(offset, 7, 1, encode_value(partition * 100 + offset))


def quiet() -> io.StringIO:
    """Somewhere to print to."""
    return io.StringIO()
