"""The controllers' quorum: elections, fail-over, snapshots (§18)."""

from __future__ import annotations

import random

import pytest

from broker.core.messages import CreateTopicsRequest, CreateTopicsResponse, FetchPartition, NewTopic
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_DIRECTORY, METADATA_TOPIC
from broker.core.quorum.replication import check_fetch
from broker.core.records import encode_batch
from tests.support.cluster import CONTROLLER, Cluster

VOTERS = (CONTROLLER, CONTROLLER + 1, CONTROLLER + 2)


def _the_active(cluster: Cluster) -> int:
    cluster.run_until(lambda: len(cluster.active_controllers()) == 1)
    return cluster.active_controllers()[0]


def test_three_controllers_elect_one() -> None:
    cluster = Cluster(controllers=3)
    active = _the_active(cluster)
    cluster.run(3000)
    assert cluster.active_controllers() == [active]


def test_a_killed_controller_is_replaced_and_elections_of_leaders_go_on() -> None:
    cluster = Cluster(controllers=3)
    cluster.create_topic()
    first = _the_active(cluster)
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE
    cluster.kill(first)
    leader = cluster.leader()
    cluster.kill(leader)
    cluster.run_until(lambda: cluster.leader() not in (leader, -1))
    assert _the_active(cluster) != first
    cluster.run_until(lambda: cluster.produce(cluster.leader(), 2) == ErrorCode.NONE)
    cluster.start(first)
    cluster.start(leader)
    cluster.run_until(cluster.is_whole)
    assert cluster.read(cluster.leader()) == [1, 2]


def test_a_topic_that_is_asked_for_while_the_controllers_elect_is_created() -> None:
    cluster = Cluster(controllers=3)
    cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
    cluster.kill(_the_active(cluster))
    answer = cluster.call(1, CreateTopicsRequest((NewTopic("new", 1, 3),)))
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE


def test_without_controllers_a_client_gets_an_error_at_its_timeout() -> None:
    cluster = Cluster(controllers=3)
    cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
    for number in (100, 101, 102):
        cluster.kill(number)
    request = cluster.ask(1, CreateTopicsRequest((NewTopic("late", 1, 1),), timeout_ms=1_000))
    cluster.run(1_000)
    assert request not in cluster.answers
    cluster.run(500)
    answer = cluster.answers[request]
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_an_isolated_active_controller_steps_down_and_commits_nothing() -> None:
    cluster = Cluster(controllers=3)
    cluster.create_topic()
    first = _the_active(cluster)
    cluster.isolate(first)
    cluster.run_until(lambda: first not in cluster.active_controllers() and len(cluster.active_controllers()) == 1)
    cluster.heal()
    cluster.run_until(cluster.is_whole)


def test_a_controller_that_is_deposed_does_not_confirm_what_was_not_committed() -> None:
    cluster = Cluster(controllers=3)
    cluster.create_topic()
    first = _the_active(cluster)
    cluster.isolate(first)
    lost = cluster.ask(first, CreateTopicsRequest((NewTopic("lost", 1, 3),)))
    cluster.run_until(lambda: lost in cluster.answers)
    assert first not in cluster.active_controllers()
    answer = cluster.answers[lost]
    assert isinstance(answer, CreateTopicsResponse)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NOT_CONTROLLER]


def test_a_voter_that_was_cut_off_does_not_depose_the_leader_when_it_returns() -> None:
    cluster = Cluster(controllers=3)
    active = _the_active(cluster)
    cut_off = next(voter for voter in VOTERS if voter != active)
    epoch = cluster.machines[active].node.describe()["epoch"]  # type: ignore[union-attr]
    cluster.isolate(cut_off)
    cluster.run(5000)
    cluster.heal()
    cluster.run(2000)
    assert cluster.active_controllers() == [active]
    assert cluster.machines[active].node.describe()["epoch"] == epoch  # type: ignore[union-attr]


def test_a_stopped_leader_hands_over_at_once() -> None:
    cluster = Cluster(controllers=3)
    active = _the_active(cluster)
    cluster.stop(active)
    stopped_ms = cluster.now_ms
    cluster.run_until(lambda: cluster.active_controllers() not in ([], [active]))
    assert cluster.now_ms - stopped_ms < 150
    assert cluster.machines[active].node is None


def test_a_voter_that_fell_behind_the_log_takes_the_snapshot() -> None:
    cluster = Cluster(controllers=3, metadata_snapshot_records=20)
    cluster.create_topic()
    active = _the_active(cluster)
    behind = next(voter for voter in VOTERS if voter != active)
    cluster.kill(behind)
    for _ in range(8):
        leader = cluster.leader()
        cluster.kill(leader)
        cluster.run_until(lambda leader=leader: cluster.leader() not in (leader, -1))
        cluster.start(leader)
        cluster.run_until(cluster.is_whole)
    cluster.start(behind)
    cluster.run_until(lambda: any("loaded" in note for note in cluster.machines[behind].notes))
    cluster.kill(active)
    cluster.kill(cluster.leader())
    for number in (1, 2, 3):
        if cluster.machines[number].node is None:
            cluster.start(number)
    cluster.run_until(cluster.is_whole)


@pytest.mark.parametrize(
    ("offset", "epoch", "snapshot"),
    [
        (12, 3, None),  # where the snapshot ends, by its own epoch
        (12, 2, (12, 3)),  # the same offset, by records that were never committed
        (14, 2, (12, 3)),
        (14, 3, None),
    ],
)
def test_a_log_that_begins_after_a_snapshot_cannot_vouch_for_what_an_older_epoch_wrote(
    offset: int, epoch: int, snapshot: tuple[int, int] | None
) -> None:
    leader = Cluster().machines[CONTROLLER].node.state.quorum  # type: ignore[union-attr]
    leader.epoch = leader.snapshot_id[1] + 4
    leader.log.truncate_fully(0)
    for at in range(16):
        batch = encode_batch([(None, b"change")], at, 3, 0)
        leader.log.append_as_leader(batch, leader_epoch=3)
    leader.log.advance_start(12)
    leader.snapshot_id = (12, 3)
    fetch = FetchPartition(METADATA_TOPIC, 0, offset, 1 << 20, leader.epoch, epoch)
    refusal = check_fetch(leader, fetch)
    assert (refusal.snapshot_id if refusal is not None else None) == snapshot


def test_a_snapshot_that_reached_the_disk_before_the_log_that_it_covers_is_where_the_log_begins() -> None:
    cluster = Cluster(controllers=3, metadata_snapshot_records=8)
    cluster.create_topic()
    voter = next(voter for voter in VOTERS if voter != _the_active(cluster))
    quorum = cluster.machines[voter].node.state.quorum  # type: ignore[union-attr]
    cluster.run_until(lambda: quorum.snapshot_id[0] > 0)
    cluster.kill(voter)
    files = cluster.machines[voter].files
    for name in files.list(METADATA_DIRECTORY):
        if name.endswith(".log"):
            files.truncate(f"{METADATA_DIRECTORY}/{name}", 0)
    cluster.start(voter)
    quorum = cluster.machines[voter].node.state.quorum  # type: ignore[union-attr]
    assert quorum.log.start_offset == quorum.log.end_offset == quorum.snapshot_id[0] == quorum.high_watermark
    cluster.run_until(cluster.is_whole)


def test_everything_is_there_after_all_controllers_lost_their_page_caches() -> None:
    cluster = Cluster(controllers=3)
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE
    for voter in VOTERS:
        cluster.kill(voter, lose_page_cache=True)
    for voter in VOTERS:
        cluster.start(voter)
    cluster.run_until(cluster.is_whole)
    assert cluster.produce(cluster.leader(), 2) == ErrorCode.NONE


@pytest.mark.parametrize("seed", range(15))
def test_two_controllers_never_lead_one_epoch_and_nothing_acknowledged_is_lost(seed: int) -> None:
    draw = random.Random(seed)
    cluster = Cluster(controllers=3, seed=seed, metadata_snapshot_records=25)
    cluster.create_topic()
    sent: dict[int, int] = {}
    leaders: dict[int, int] = {}
    for value in range(60):
        leader = cluster.leader()
        if leader > 0 and cluster.machines[leader].node is not None:
            sent[cluster.send(leader, value)] = value
        cluster.run(draw.randint(0, 120))
        for number in cluster.active_controllers():
            epoch = cluster.machines[number].node.describe()["epoch"]  # type: ignore[union-attr]
            assert leaders.setdefault(epoch, number) == number  # type: ignore[arg-type]
        victim = draw.choice((*VOTERS, *VOTERS, 1, 2, 3))
        match draw.choice(("kill", "isolate", "heal", "start", "lossy")):
            case "kill":
                cluster.kill(victim)
            case "lossy" if victim >= CONTROLLER:
                cluster.kill(victim, lose_page_cache=True)
            case "isolate":
                cluster.heal()
                cluster.isolate(*draw.sample((*VOTERS, 1, 2, 3), draw.randint(1, 3)))
            case "heal":
                cluster.heal()
        for number, machine in cluster.machines.items():
            if machine.node is None and draw.random() < 0.3:
                cluster.start(number)
    cluster.heal()
    for number, machine in cluster.machines.items():
        if machine.node is None:
            cluster.start(number)
    cluster.run_until(cluster.is_whole, 60_000)
    acknowledged = {value for own_id, value in sent.items() if cluster.error_of(own_id) == ErrorCode.NONE}
    assert acknowledged <= set(cluster.read(cluster.leader()))
