"""Committed offsets never go back under random kills, cuts and lost page caches."""

from __future__ import annotations

import random

import pytest

from broker.core.messages import FindCoordinatorRequest
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from tests.broker.groups.group_driver import BROKERS, GROUP, make_cluster
from tests.support.cluster import TOPIC, Cluster

STEPS = 60


class Committer:
    """Commits 1, 2, 3 … in sequence, through any broker that claims to be the coordinator."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.next_offset = 1
        self.acknowledged = 0

    def _ask(self, number: int, request: object, patience_ms: int = 500) -> object | None:
        own_id = self.cluster.ask(number, request)  # type: ignore[arg-type]
        self.cluster.run_until(lambda: own_id in self.cluster.answers, patience_ms, fail=False)
        return self.cluster.answers.get(own_id)

    def _coordinator(self, number: int) -> int:
        answer = self._ask(number, FindCoordinatorRequest(0, (GROUP,)))
        return answer.coordinators[0].node_id if answer is not None else -1  # type: ignore[attr-defined]

    def commit(self, through: int) -> None:
        coordinator = self._coordinator(through)
        if coordinator < 0:
            return
        part = OffsetCommitPartition(TOPIC, 0, self.next_offset)
        self.next_offset += 1
        answer = self._ask(coordinator, OffsetCommitRequest(GROUP, -1, "", (part,)), 1_500)
        if answer is not None and answer.partitions[0].error_code == ErrorCode.NONE:  # type: ignore[attr-defined]
            self.acknowledged = part.offset

    def fetch(self, through: int) -> int | None:
        """The committed offset by a coordinator, None if it does not answer. Acknowledged commits must be included."""
        coordinator = self._coordinator(through)
        if coordinator < 0:
            return None
        answer = self._ask(coordinator, OffsetFetchRequest((OffsetFetchGroup(GROUP, ((TOPIC, 0),)),)))
        if answer is None or answer.groups[0].error_code:  # type: ignore[attr-defined]
            return None
        return answer.groups[0].partitions[0].offset  # type: ignore[attr-defined, no-any-return]


def shake(cluster: Cluster, source: random.Random) -> None:
    """One fault or one repair; at most one broker is down or cut off at a time, as min ISR 2 of 3 allows."""
    down = [number for number in BROKERS if cluster.machines[number].node is None]
    match source.randrange(5):
        case 0 if not down and not cluster.cut:
            cluster.kill(source.choice(BROKERS), lose_page_cache=source.random() < 0.5)
        case 1 if not down and not cluster.cut:
            cluster.isolate(source.choice(BROKERS))
        case 2 | 3:
            cluster.heal()
            for number in down:
                cluster.start(number)
        case _:
            cluster.run(source.randrange(1, 800))


@pytest.mark.parametrize("seed", range(6))
def test_an_acknowledged_commit_is_never_forgotten(seed: int) -> None:
    cluster = make_cluster(seed=seed, offsets_commit_timeout_ms=1_000)
    source = random.Random(seed)
    committer = Committer(cluster)
    cluster.run_until(lambda: committer.fetch(1) == -1)
    for _ in range(STEPS):
        shake(cluster, source)
        committer.commit(source.choice(BROKERS))
    cluster.heal()
    for number in BROKERS:
        if cluster.machines[number].node is None:
            cluster.start(number)
    cluster.run_until(lambda: committer.fetch(1) is not None)
    found = committer.fetch(1)
    assert found is not None
    assert committer.acknowledged <= found < committer.next_offset
    assert committer.acknowledged > STEPS // 4, "too few commits got through to prove anything"


def test_a_coordinator_that_does_not_wait_for_replicas_forgets() -> None:
    """The flaw that the other tests would detect."""
    cluster = make_cluster(flaws=("ack-before-replication",))
    committer = Committer(cluster)
    cluster.run_until(lambda: committer.fetch(1) == -1)
    coordinator = committer._coordinator(1)
    cluster.isolate(coordinator)
    part = OffsetCommitPartition(TOPIC, 0, 5)
    answer = cluster.call(coordinator, OffsetCommitRequest(GROUP, -1, "", (part,)))
    assert answer.partitions[0].error_code == ErrorCode.NONE  # type: ignore[union-attr]
    other = next(number for number in BROKERS if number != coordinator)
    cluster.run_until(lambda: committer._coordinator(other) not in (coordinator, -1))
    cluster.heal()
    cluster.run_until(lambda: committer.fetch(other) == -1)
