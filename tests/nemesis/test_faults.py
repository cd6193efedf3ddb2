"""Each kind of fault against a fake cluster: it takes effect and heals, or reports that it did not."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from history.contract import CRASHING_FIRST
from nemesis.capabilities.cluster import CLIENTS, NodeError
from nemesis.draws import Draws
from nemesis.faults import KINDS
from nemesis.faults.base import Injection, NotInEffect, Parameters, Recurring
from tests.support.fake_cluster import FakeClock, FakeCluster, FakeNode, quorum_cluster, site_of

ADMINISTRATION = [name for name, kind in KINDS.items() if kind.family == "administration"]


def aimed(cluster: FakeCluster, kind: str, *targets: int, **parameters: str) -> Injection:
    return KINDS[kind].aim(site_of(cluster), targets, parameters)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_takes_effect_and_heals(kind: str) -> None:
    cluster = FakeCluster()
    parameters: Parameters = KINDS[kind].draw(Draws(7, "parameters"))
    if "spare-broker" in KINDS[kind].needs:
        cluster.nodes[4] = FakeNode(4)
    clock = FakeClock()
    fault = KINDS[kind].aim(site_of(cluster, clock), (2,), parameters)
    before = copy.deepcopy(cluster)

    evidence = fault.inject()

    assert cluster != before
    assert "2" in evidence or kind in ADMINISTRATION
    if isinstance(fault, Recurring):
        fault.tick()
    fault.undo()
    fault.check_healed()
    clock.sleep(1.0)
    healing = fault.check_healed()
    assert healing.healed, healing.evidence
    assert all(node.is_ready() for node in cluster.nodes.values())
    assert not cluster.network.cut


@pytest.mark.parametrize("kind", sorted(CRASHING_FIRST))
def test_nodes_that_a_fault_crashes_first_are_dead_from_then_until_it_ends(kind: str) -> None:
    """What is acknowledged after it has taken hold is on none of them, so that they cannot lose it."""
    cluster = FakeCluster()
    fault = KINDS[kind].aim(site_of(cluster), (2,), KINDS[kind].draw(Draws(7, "parameters")))
    fault.inject()
    assert not cluster.nodes[2].is_alive()
    if isinstance(fault, Recurring):
        fault.tick()
    assert (cluster.nodes[2].is_alive(), cluster.nodes[2].deaths) == (False, 1)
    fault.undo()
    assert (cluster.nodes[2].is_alive(), cluster.nodes[2].deaths) == (True, 1)


def test_a_node_that_survives_its_kill_is_not_killed() -> None:
    cluster = FakeCluster()
    cluster.nodes[1].immortal = True
    with pytest.raises(NotInEffect, match="node 1 did not die within 1 s"):
        aimed(cluster, "kill", 1).inject()


def test_a_crash_loop_kills_a_node_that_was_up_for_long_enough() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    loop = KINDS["crash-loop"].aim(site_of(cluster, clock), (1,), {"up-ms": "500", "down-ms": "200"})
    loop.inject()
    assert isinstance(loop, Recurring)
    for _ in range(40):
        clock.sleep(0.05)
        loop.tick()
    assert cluster.nodes[1].deaths == 1 + 2
    loop.undo()
    assert loop.check_healed().evidence.startswith("node 1 died 3 times; node 1 (process 10")


def test_a_rolling_restart_waits_for_each_node_to_serve() -> None:
    cluster = FakeCluster()
    rolling = KINDS["rolling-restart"].aim(site_of(cluster), (1, 2, 3), {})
    assert rolling.inject().endswith("exit status 0, the first of 3")
    assert isinstance(rolling, Recurring)
    cluster.nodes[1].never_ready = True
    rolling.tick()
    assert (cluster.nodes[1].pid, cluster.nodes[2].pid) == (1001, 1000)
    cluster.nodes[1].never_ready = False
    for _ in range(5):
        rolling.tick()
    rolling.undo()
    assert [cluster.nodes[number].pid for number in (1, 2, 3)] == [1001, 1001, 1001]
    assert rolling.check_healed().evidence.startswith("restarted nodes 1, 2 and 3; ")


@pytest.mark.parametrize("kind", ["full-disk", "disk-error", "disk-stall", "lying-fsync"])
def test_trouble_that_no_request_met_did_not_take_effect(kind: str) -> None:
    cluster = FakeCluster()
    cluster.nodes[1].disk.unasked = True
    fault = aimed(cluster, kind, 1)
    with pytest.raises(NotInEffect, match="node 1 made no disk request that the trouble affects"):
        fault.inject()
    fault.undo()
    assert (cluster.nodes[1].deaths, cluster.nodes[1].disk.trouble) == (0, None)


def test_a_node_that_dies_late_of_its_disk_has_not_healed() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    fault = KINDS["disk-error"].aim(site_of(cluster, clock), (1,), {})
    fault.inject()
    fault.undo()
    assert not fault.check_healed().healed
    clock.sleep(0.9)
    cluster.nodes[1].alive = False
    cluster.nodes[1].never_ready = True
    assert not fault.check_healed().healed
    cluster.nodes[1].never_ready = False
    clock.sleep(0.2)
    assert not fault.check_healed().healed
    clock.sleep(1.0)
    assert fault.check_healed().healed


def test_lies_come_out_when_they_are_over() -> None:
    cluster = FakeCluster()
    fault = aimed(cluster, "lying-fsync", 1, first="fails")
    assert "fsync-fails-then-lies, met 1 times" in fault.inject()
    assert cluster.nodes[1].deaths == 0
    fault.undo()
    assert (cluster.nodes[1].deaths, cluster.nodes[1].disk.trouble) == (1, None)
    assert "node 1 lost 4,096 bytes after 1 requests to sync" in fault.check_healed().evidence


@pytest.mark.parametrize("files", ["log", "index"])
def test_damage_to_logs_takes_the_recovery_point_so_that_it_is_found(files: str) -> None:
    cluster = FakeCluster()
    evidence = aimed(cluster, "bit-flip", 1, files=files, pick="7").inject()
    (name, _), *_ = cluster.nodes[1].disk.flipped
    assert name.endswith(f".{files}")
    assert "recovery-point-offset-checkpoint removed" in evidence
    assert "recovery-point-offset-checkpoint" not in cluster.nodes[1].disk.sizes


def test_damage_to_files_that_are_not_there_does_not_take_effect() -> None:
    cluster = FakeCluster()
    cluster.nodes[1].disk.sizes.clear()
    with pytest.raises(NotInEffect, match="no log file that is not empty"):
        aimed(cluster, "file-loss", 1, files="log").inject()


def test_a_rollback_undoes_what_came_after_the_copy() -> None:
    cluster = FakeCluster()
    fault = aimed(cluster, "disk-rollback", 1)
    assert "9,110 bytes of node 1 copied" in fault.inject()
    cluster.nodes[1].disk.sizes["harrow-0/00000000000000000000.log"] = 19_000
    fault.undo()
    assert "node 1 was rolled back by 10,000 bytes" in fault.check_healed().evidence
    assert cluster.nodes[1].deaths == 1


@pytest.mark.parametrize("kind", ADMINISTRATION)
def test_an_act_that_changes_nothing_did_not_take_effect(kind: str) -> None:
    cluster = FakeCluster()
    cluster.administrator.lazy = True
    cluster.nodes[4] = FakeNode(4)
    fault = aimed(cluster, kind, 1, pick="1")
    with pytest.raises(NotInEffect, match=r"was not created|did not get|did not become|did not change|still has"):
        fault.inject()
    fault.undo()


@pytest.mark.parametrize("kind", ["reassignment", "preferred-election"])
def test_a_partition_is_not_moved_while_a_replica_is_behind(kind: str) -> None:
    with pytest.raises(NotInEffect, match="harrow-1 does not have all its replicas in sync"):
        aimed(FakeCluster(insync=(1, 2)), kind, 1, pick="1").inject()


def test_without_a_spare_broker_a_partition_does_without_a_follower() -> None:
    cluster = FakeCluster()
    fault = aimed(cluster, "reassignment", 1, pick="0")
    assert "from [1, 2, 3] to [1, 2]" in fault.inject()
    fault.undo()
    assert fault.check_healed().evidence == "replicas of harrow-0 are [1, 2, 3] again, all in sync"


@pytest.mark.parametrize("kind", ["reassignment", "preferred-election", "broker-removal"])
def test_a_partition_that_cannot_be_moved_back_yet_is_not_healed(kind: str) -> None:
    cluster = FakeCluster()
    cluster.nodes[4] = FakeNode(4)
    cluster.insync = (1, 2, 3, 4)
    fault = aimed(cluster, kind, 1, pick="0")
    fault.inject()
    cluster.administrator.busy = 2
    fault.undo()
    assert "cannot be moved back yet" in fault.check_healed().evidence
    while cluster.administrator.busy:
        assert not fault.check_healed().healed
    fault.check_healed()
    assert fault.check_healed().healed


def test_a_broker_that_no_other_can_replace_stays() -> None:
    cluster = FakeCluster()
    with pytest.raises(NotInEffect, match="harrow-0 cannot do without node 1 now"):
        aimed(cluster, "broker-removal", 1).inject()
    assert cluster.nodes[1].alive


def test_a_broker_gets_its_replicas_back_once_it_serves() -> None:
    cluster = FakeCluster()
    cluster.nodes[4] = FakeNode(4)
    cluster.insync = (1, 2, 3, 4)
    fault = aimed(cluster, "broker-removal", 1)
    assert fault.inject().startswith("3 replicas moved away from node 1; node 1 shut down")
    assert {view.replicas for view in cluster.partitions()} == {(4, 2, 3)}
    cluster.nodes[1].never_ready = True
    fault.undo()
    assert not fault.check_healed().healed
    assert {view.replicas for view in cluster.partitions()} == {(4, 2, 3)}
    cluster.nodes[1].never_ready = False
    assert fault.check_healed().healed
    assert {view.replicas for view in cluster.partitions()} == {(1, 2, 3)}


def test_min_isr_is_raised_and_set_back() -> None:
    cluster = FakeCluster()
    fault = aimed(cluster, "raised-min-isr", 1)
    assert "raised from 2 to 3" in fault.inject()
    assert not fault.check_healed().healed
    fault.undo()
    assert fault.check_healed().healed


def test_a_clock_that_stays_right_is_not_wrong() -> None:
    cluster = FakeCluster()
    cluster.nodes[1].clock.stubborn = True
    with pytest.raises(NotInEffect, match="the clock of node 1 stayed right"):
        aimed(cluster, "clock-jump", 1).inject()


def test_a_strobing_clock_is_wrong_and_right_in_turns() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    strobe = KINDS["clock-strobe"].aim(site_of(cluster, clock), (1,), {"offset-ms": "5000", "period-ms": "100"})
    strobe.inject()
    assert isinstance(strobe, Recurring)
    seen = []
    for _ in range(8):
        seen.append(cluster.nodes[1].clock.offset_ms)
        clock.sleep(0.05)
        strobe.tick()
    assert seen == [5000, 5000, 0, 0, 5000, 5000, 0, 0]
    strobe.undo()
    assert strobe.check_healed().evidence.startswith("the clock is right after 5 jumps, asked 3 times")


def test_a_node_that_runs_on_is_not_starved() -> None:
    cluster = FakeCluster()
    cluster.nodes[1].sleepless = True
    with pytest.raises(NotInEffect, match="node 1 might run in 100 % of the time"):
        aimed(cluster, "cpu-starvation", 1, percent="5").inject()


def test_a_node_that_was_dead_before_is_not_killed() -> None:
    cluster = FakeCluster()
    cluster.nodes[1].alive = False
    with pytest.raises(NotInEffect, match="node 1 had died before"):
        aimed(cluster, "kill", 1).inject()


def test_a_killed_node_has_not_healed_before_it_serves() -> None:
    cluster = FakeCluster()
    fault = aimed(cluster, "kill", 1)
    fault.inject()
    cluster.nodes[1].never_ready = True
    fault.undo()
    assert fault.check_healed() == (False, "node 1 did not serve again")


def test_evidence_of_a_kill_names_both_processes() -> None:
    cluster = FakeCluster()
    fault = aimed(cluster, "kill", 1)
    assert "process 1000" in fault.inject()
    fault.undo()
    assert "process 1001" in fault.check_healed().evidence


def test_a_node_that_does_not_start_raises_its_last_log_lines() -> None:
    cluster = FakeCluster()
    fault = aimed(cluster, "kill", 1)
    fault.inject()
    cluster.nodes[1].refuses_to_start = True
    with pytest.raises(NodeError, match="no room"):
        fault.undo()


def test_a_node_that_runs_on_is_not_paused() -> None:
    cluster = FakeCluster()
    cluster.nodes[3].sleepless = True
    with pytest.raises(NotInEffect, match="node 3 went on running"):
        aimed(cluster, "pause", 3).inject()


def test_a_node_that_died_while_it_was_paused_is_started() -> None:
    cluster = FakeCluster()
    fault = aimed(cluster, "pause", 3)
    fault.inject()
    cluster.nodes[3].kill()
    fault.undo()
    assert fault.check_healed().healed


def test_a_shutdown_with_a_bad_status_was_not_controlled() -> None:
    cluster = FakeCluster()
    cluster.nodes[2].stops_with = 4
    with pytest.raises(NotInEffect, match="node 2 exited with status 4"):
        aimed(cluster, "restart", 2).inject()


def test_a_system_says_with_which_statuses_its_nodes_end_in_good_order() -> None:
    cluster = FakeCluster()
    cluster.nodes[2].stops_with = 143
    site = replace(site_of(cluster), orderly_exits=frozenset({0, 143}))
    evidence = KINDS["restart"].aim(site, (1, 2), {}).inject()
    assert evidence == "nodes 1 and 2 shut down cleanly, exit status 0, 143"
    cluster.nodes[3].stops_with = 1
    with pytest.raises(NotInEffect, match="node 3 exited with status 1"):
        KINDS["restart"].aim(site, (3,), {}).inject()


def test_page_cache_loss_kills_first_and_says_what_was_lost() -> None:
    cluster = FakeCluster()
    assert "node 2 lost 4,096 bytes in 1 files by fake" in aimed(cluster, "page-cache-loss", 2).inject()
    assert cluster.nodes[2].deaths == 1


def test_page_cache_loss_of_a_node_that_had_synced_everything_says_so() -> None:
    cluster = FakeCluster()
    cluster.nodes[2].unsynced_bytes = 0
    assert "had synced everything: 0 bytes lost" in aimed(cluster, "page-cache-loss", 2).inject()


def test_isolation_from_everyone_cuts_both_ways_to_all() -> None:
    cluster = FakeCluster()
    aimed(cluster, "isolate", 1, **{"from": "all"}).inject()
    assert cluster.network.cut == {
        *((1, other) for other in (CLIENTS, 2, 3, 100)),
        *((other, 1) for other in (CLIENTS, 2, 3, 100)),
    }


def test_isolation_from_the_nodes_leaves_the_clients() -> None:
    cluster = FakeCluster()
    aimed(cluster, "isolate", 1, **{"from": "nodes"}).inject()
    assert not any(CLIENTS in link for link in cluster.network.cut)
    assert (1, 100) in cluster.network.cut


def test_isolation_from_the_brokers_leaves_the_controller() -> None:
    cluster = FakeCluster()
    aimed(cluster, "isolate", 1, **{"from": "brokers"}).inject()
    assert cluster.network.cut == {(1, 2), (2, 1), (1, 3), (3, 1)}


def test_halves_put_controller_and_clients_where_they_were_drawn() -> None:
    cluster = FakeCluster()
    evidence = aimed(cluster, "halves", 1, controller="targets", clients="rest").inject()
    assert "{1, 100} apart from {clients, 2, 3}" in evidence
    assert len(cluster.network.cut) == 2 * 2 * 3


def test_a_broker_can_be_cut_off_from_the_controllers_alone() -> None:
    cluster = quorum_cluster()
    aimed(cluster, "isolate", 1, **{"from": "controllers"}).inject()
    assert cluster.network.cut == {link for each in (100, 101, 102) for link in ((1, each), (each, 1))}


def test_a_controller_can_be_cut_off_from_the_other_controllers_alone() -> None:
    cluster = quorum_cluster()
    aimed(cluster, "isolate", 100, **{"from": "controllers"}).inject()
    assert cluster.network.cut == {link for each in (101, 102) for link in ((100, each), (each, 100))}


def test_there_must_be_a_node_to_be_cut_off_from() -> None:
    with pytest.raises(NotInEffect, match="nothing to cut node 100 off from"):
        aimed(FakeCluster(), "isolate", 100, **{"from": "controllers"}).inject()


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ("targets", "{1, 100, 101, 102} apart from {2, 3}"),
        ("rest", "{1} apart from {2, 3, 100, 101, 102}"),
        ("active", "{1, 100} apart from {2, 3, 101, 102}"),
    ],
)
def test_halves_keep_the_controllers_together_or_part_the_active_one_from_them(where: str, parts: str) -> None:
    assert parts in aimed(quorum_cluster(), "halves", 1, controller=where).inject()


@pytest.mark.parametrize(("direction", "cut"), [("in", (2, 1)), ("out", (1, 2))])
def test_one_way_cuts_one_direction_and_keeps_the_other(direction: str, cut: tuple[int, int]) -> None:
    cluster = FakeCluster()
    aimed(cluster, "one-way", 1, direction=direction, **{"from": "brokers"}).inject()
    assert cluster.network.reached([(1, 2), (2, 1)]) == {(1, 2), (2, 1)} - {cut}


def test_a_cut_that_lets_packets_pass_did_not_take_effect() -> None:
    cluster = FakeCluster()
    cluster.network.leaky = True
    with pytest.raises(NotInEffect, match="packets still pass"):
        aimed(cluster, "isolate", 1).inject()


def test_a_one_way_cut_that_cuts_both_ways_did_not_take_effect() -> None:
    cluster = FakeCluster()
    cluster.network.clumsy = True
    with pytest.raises(NotInEffect, match="more links are cut than intended"):
        aimed(cluster, "one-way", 1, direction="in").inject()


def test_a_partition_has_not_healed_before_packets_pass() -> None:
    cluster = FakeCluster()
    fault = aimed(cluster, "isolate", 1)
    fault.inject()
    fault.undo()
    cluster.network.stuck = True
    assert not fault.check_healed().healed


def test_a_link_is_mended_when_the_last_fault_lets_go() -> None:
    cluster = FakeCluster()
    site = site_of(cluster)
    first = KINDS["isolate"].aim(site, (1,), {"from": "brokers"})
    second = KINDS["isolate"].aim(site, (2,), {"from": "brokers"})
    first.inject()
    second.inject()
    first.undo()
    assert cluster.network.cut == {(1, 2), (2, 1), (2, 3), (3, 2)}
    assert first.check_healed().healed, "links that another fault cuts do not count"
    second.undo()
    assert not cluster.network.cut
