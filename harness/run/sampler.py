"""Samples the state that every node reports, throughout a run, into `cluster`, `quorum` and `versions`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from harness.environments.base import NodePlan, ReplicaState, System
from nemesis.capabilities.cluster import VoterView, is_broker, is_controller

INTERVAL_S = 0.5


class Sampler:
    """A thread that queries every node twice a second. A node that is dead, paused or busy is left out.

    A controller is recorded when its role, leader or epoch has changed, and any node when its version has.
    """

    def __init__(
        self,
        system: System,
        plans: Sequence[NodePlan],
        now_ns: Callable[[], int],
        record: Callable[[Mapping[str, object]], None],
        record_voter: Callable[[Mapping[str, object]], None],
        record_version: Callable[[Mapping[str, object]], None] | None = None,
    ) -> None:
        """`record_version` is for runs in which versions change."""
        self._system = system
        self._brokers = [plan for plan in plans if is_broker(plan)]
        self._controllers = [plan for plan in plans if is_controller(plan)]
        self._now_ns = now_ns
        self._record = record
        self._record_voter = record_voter
        self._record_version = record_version
        self._plans = plans
        self._versions: dict[int, str] = {}  # the latest of each node
        self._latest: dict[int, tuple[str, int, int]] = {}  # role, leader and epoch of each controller
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_done, name="sampler", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling; safe to call twice, and before the start."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _sample_until_done(self) -> None:
        while not self._done.wait(INTERVAL_S):
            self.sample_all()

    def sample_all(self) -> None:
        """Query every node once."""
        for plan in self._brokers:
            self._sample(plan)
        for plan in self._controllers:
            self._sample_quorum(plan)
        if self._record_version is not None:
            for plan in self._plans:
                self._sample_version(plan, self._record_version)

    def _sample_version(self, plan: NodePlan, record: Callable[[Mapping[str, object]], None]) -> None:
        version = self._system.version(plan)
        if version is not None and version != self._versions.get(plan.node_id):
            self._versions[plan.node_id] = version
            record({"node": plan.node_id, "at_ns": self._now_ns(), "version": version})

    def _sample(self, plan: NodePlan) -> None:
        replicas = self._system.replicas(plan)
        at_ns = self._now_ns()
        for replica in replicas:
            self._record(_row(plan.node_id, at_ns, replica))

    def _sample_quorum(self, plan: NodePlan) -> None:
        for voter in self._system.voters([plan]):
            current = voter.role, voter.leader, voter.epoch
            if current != self._latest.get(voter.controller):
                self._latest[voter.controller] = current
                self._record_voter(_voter_row(self._now_ns(), voter))


def _voter_row(at_ns: int, voter: VoterView) -> Mapping[str, object]:
    return {
        "at_ns": at_ns,
        "controller": voter.controller,
        "role": voter.role,
        "leader": voter.leader,
        "epoch": voter.epoch,
        "log_end": voter.log_end,
        "high_watermark": voter.high_watermark,
    }


def _row(broker: int, at_ns: int, replica: ReplicaState) -> Mapping[str, object]:
    return {
        "at_ns": at_ns,
        "broker": broker,
        "topic": replica.topic,
        "partition": replica.partition,
        "role": replica.role,
        "leader": replica.leader,
        "leader_epoch": replica.leader_epoch,
        "log_start": replica.log_start,
        "log_end": replica.log_end,
        "high_watermark": replica.high_watermark,
        "isr": list(replica.isr),
        "elr": list(replica.elr),
        "broker_epoch": replica.broker_epoch,
        "last_known_elr": None if replica.last_known_elr is None else list(replica.last_known_elr),
    }
