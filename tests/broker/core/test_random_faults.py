"""Random faults within the durability budget: every record acknowledged with acks=all can be read at the end."""

from __future__ import annotations

import random

import pytest

from broker.core.messages.errors import ErrorCode
from tests.support.cluster import CONTROLLER, Cluster

BROKERS = (1, 2, 3)


def _torment(
    seed: int, flaws: tuple[str, ...] = (), *, lossy_shutdowns: bool = True, **settings: object
) -> tuple[list[int], list[int]]:
    """Acknowledged values, and the values read at the end."""
    draw = random.Random(seed)
    cluster = Cluster(seed=seed, flaws=flaws, **settings)
    cluster.create_topic()
    sent: dict[int, int] = {}
    value = 0
    lossy: int | None = None
    epoch = -1
    for _ in range(40):
        for _ in range(draw.randint(0, 4)):
            value += 1
            alive = [number for number in BROKERS if cluster.machines[number].node is not None]
            target = cluster.leader() if cluster.leader() in alive and draw.random() < 0.8 else draw.choice(BROKERS)
            if cluster.machines[target].node is not None:
                sent[cluster.send(target, value)] = value
        cluster.run(draw.randint(0, 120))
        if lossy is not None and cluster.broker_epoch(lossy) > epoch and lossy in cluster.view()["isr"]:
            lossy = None  # it is in the ISR again, and not still
        match draw.choice(("kill", "lossy", "isolate", "heal", "start", "nothing", "controller")):
            case "kill":
                cluster.kill(draw.choice(BROKERS))
            case "lossy" if lossy is None and lossy_shutdowns:
                victim = draw.choice((cluster.leader(), *BROKERS)) if cluster.leader() > 0 else draw.choice(BROKERS)
                if cluster.machines[victim].node is not None:
                    lossy, epoch = victim, cluster.broker_epoch(victim)
                    cluster.kill(lossy, lose_page_cache=True)
            case "isolate":
                cluster.heal()
                cluster.isolate(*draw.sample((*BROKERS, CONTROLLER), draw.randint(1, 2)))
            case "heal":
                cluster.heal()
            case "start":
                for number in BROKERS:
                    if cluster.machines[number].node is None and draw.random() < 0.7:
                        cluster.start(number)
            case "controller" if draw.random() < 0.3:
                cluster.kill(CONTROLLER)
                cluster.start(CONTROLLER)
        for number in BROKERS:
            if cluster.machines[number].node is None and draw.random() < 0.15:
                cluster.start(number)
    cluster.heal()
    for number in BROKERS:
        if cluster.machines[number].node is None:
            cluster.start(number)
    cluster.run_until(cluster.is_whole, 60_000)
    acknowledged = [value for own_id, value in sent.items() if cluster.error_of(own_id) == ErrorCode.NONE]
    return acknowledged, cluster.read(cluster.leader())


@pytest.mark.parametrize("seed", range(25))
def test_nothing_acknowledged_is_lost_while_lossy_shutdowns_do_not_overlap(seed: int) -> None:
    acknowledged, read = _torment(seed)
    assert set(acknowledged) <= set(read)


@pytest.mark.parametrize("seed", range(5))
def test_the_same_holds_with_fsync_on_every_write(seed: int) -> None:
    acknowledged, read = _torment(seed, log_flush_interval_messages=1)
    assert set(acknowledged) <= set(read)


@pytest.mark.parametrize("flaw", ["ack-before-replication", "truncate-to-high-watermark", "unclean-election"])
def test_each_flaw_loses_something_for_some_seed(flaw: str) -> None:
    for seed in range(200):
        acknowledged, read = _torment(seed, flaws=(flaw,))
        if not set(acknowledged) <= set(read):
            return
    pytest.fail(f"{flaw} was not found in 200 seeds")


@pytest.mark.parametrize("generation", ["K1", "K2", "K3", "K4"])
def test_older_generations_keep_what_is_acknowledged_while_no_disk_forgets(generation: str) -> None:
    for seed in range(6):
        acknowledged, read = _torment(seed, lossy_shutdowns=False, generation=generation)
        assert set(acknowledged) <= set(read)


def _last_replica_standing(generation: str) -> list[int]:
    cluster = Cluster(generation=generation)
    cluster.create_topic()
    leader = cluster.leader()
    assert cluster.produce(leader, 1, 2) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    for number in BROKERS:
        if number != leader:
            cluster.kill(number)
            cluster.run_until(lambda number=number: number not in cluster.view()["isr"])
    cluster.kill(leader, lose_page_cache=True)
    cluster.run_until(lambda: cluster.leader() == -1)
    for number in (leader, *BROKERS):
        if cluster.machines[number].node is None:
            cluster.start(number)
    cluster.run_until(cluster.is_whole)
    return cluster.read(cluster.leader())


def test_the_last_replica_standing_loses_data_in_k3_and_not_in_k5() -> None:
    assert _last_replica_standing("K3") == []
    assert _last_replica_standing("K5") == [1, 2]
