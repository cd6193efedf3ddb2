"""The upgrade of a running cluster goes node by node, and each step waits until its node is through."""

from __future__ import annotations

import pytest

from nemesis.capabilities.cluster import NodeError, NodeLost
from nemesis.faults.base import NotInEffect
from nemesis.faults.upgrade import Upgrade
from nemesis.runner import NemesisRunner
from nemesis.schedule import Schedule, ScheduledFault, with_upgrade
from nemesis.targets import FaultTarget
from tests.support.fake_cluster import FakeClock, FakeCluster, combined_cluster, quorum_cluster, site_of

EVERYONE = (1, 2, 3, 100)


def ticked(upgrade: Upgrade, times: int = 20) -> Upgrade:
    for _ in range(times):
        upgrade.tick()
    return upgrade


def versions(cluster: FakeCluster) -> list[str]:
    return [node.runs for _, node in sorted(cluster.nodes.items())]


def started(cluster: FakeCluster, first: str = "brokers", clock: FakeClock | None = None) -> Upgrade:
    upgrade = Upgrade(site_of(cluster, clock), tuple(sorted(cluster.nodes)), first)
    upgrade.inject()
    return upgrade


def order(cluster: FakeCluster, first: str) -> list[int]:
    """The nodes in the order in which they are restarted."""
    turns: list[int] = []
    upgrade = Upgrade(site_of(cluster), tuple(sorted(cluster.nodes)), first)
    upgrade.inject()
    while True:
        turns += [number for number, node in cluster.nodes.items() if node.installed == "9.1" and number not in turns]
        if upgrade.is_complete():
            return turns
        upgrade.tick()


def test_every_node_is_upgraded_and_the_evidence_says_so() -> None:
    cluster = FakeCluster()
    upgrade = Upgrade(site_of(cluster), EVERYONE)
    assert upgrade.inject() == (
        "node 1 shut down cleanly, exit status 0, the first of 4, to be upgraded from 9.0 to 9.1"
    )
    assert not upgrade.is_complete()
    ticked(upgrade)
    assert upgrade.is_complete()
    upgrade.undo()
    assert versions(cluster) == ["9.1"] * 4
    healing = upgrade.check_healed()
    assert (healing.healed, healing.evidence.startswith("upgraded nodes 1, 2, 3 and 100 to 9.1; ")) == (True, True)
    assert [node.pid for node in cluster.nodes.values()] == [1001] * 4, "each was restarted once"


@pytest.mark.parametrize(
    ("cluster", "first", "turns"),
    [
        (quorum_cluster(), "brokers", [1, 2, 3, 101, 102, 100]),  # 100 is active until it is restarted
        (quorum_cluster(), "controllers", [101, 102, 100, 1, 2, 3]),
        (combined_cluster(2), "brokers", [3, 2, 1]),  # 1 and 2 are controllers, too
    ],
)
def test_the_active_controller_is_the_last_of_the_controllers(
    cluster: FakeCluster, first: str, turns: list[int]
) -> None:
    assert order(cluster, first) == turns


def test_a_step_waits_until_the_node_serves() -> None:
    cluster = FakeCluster()
    upgrade = started(cluster)
    cluster.nodes[1].never_ready = True
    assert versions(ticked_cluster(upgrade, cluster)) == ["9.1", "9.0", "9.0", "9.0"]
    cluster.nodes[1].never_ready = False
    assert versions(ticked_cluster(upgrade, cluster)) == ["9.1"] * 4


def test_a_step_waits_until_the_node_runs_the_new_version() -> None:
    cluster = FakeCluster()
    upgrade = started(cluster)
    cluster.nodes[1].runs = "9.0"
    assert versions(ticked_cluster(upgrade, cluster)) == ["9.0"] * 4
    cluster.nodes[1].mute = True
    assert versions(ticked_cluster(upgrade, cluster)) == ["9.0"] * 4, "silence is no proof"


def test_a_step_waits_until_the_node_is_in_every_isr() -> None:
    cluster = FakeCluster()
    upgrade = started(cluster)
    cluster.insync = (2, 3)
    assert versions(ticked_cluster(upgrade, cluster)) == ["9.1", "9.0", "9.0", "9.0"]
    assert "node 1 was not in the ISR of harrow-0" in upgrade.check_healed().evidence
    cluster.insync = (1, 2, 3)
    cluster.speechless = True
    assert versions(ticked_cluster(upgrade, cluster)) == ["9.1", "9.0", "9.0", "9.0"], "nobody tells the ISRs"
    cluster.speechless = False
    assert versions(ticked_cluster(upgrade, cluster)) == ["9.1"] * 4


def test_a_step_waits_until_the_controller_has_the_metadata() -> None:
    cluster = quorum_cluster()
    upgrade = started(cluster, "controllers")
    cluster.lacking_metadata = frozenset({101})
    assert versions(ticked_cluster(upgrade, cluster)) == ["9.0", "9.0", "9.0", "9.0", "9.1", "9.0"]
    assert "controller 101 lacked committed metadata" in upgrade.check_healed().evidence
    cluster.lacking_metadata = frozenset()
    assert versions(ticked_cluster(upgrade, cluster)) == ["9.1"] * 6


def ticked_cluster(upgrade: Upgrade, cluster: FakeCluster) -> FakeCluster:
    ticked(upgrade)
    return cluster


def test_a_step_that_takes_longer_than_healing_may_ends_the_upgrade() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    upgrade = started(cluster, clock=clock)
    cluster.insync = (2, 3)
    clock.sleep(1.9)
    upgrade.tick()
    clock.sleep(0.2)
    with pytest.raises(NodeError, match=r"node 1 was not in the ISR of harrow-0 within 2 s after its start with 9\.1"):
        upgrade.tick()


def test_a_node_that_ends_under_the_new_version_is_lost_and_not_started_again() -> None:
    cluster = FakeCluster()
    upgrade = started(cluster)
    cluster.nodes[1].alive = False
    with pytest.raises(NodeLost, match=r"node 1 ended by itself after its start with 9\.1"):
        upgrade.tick()
    upgrade.undo()
    assert not cluster.nodes[1].is_alive()
    with pytest.raises(NodeLost, match=r"did not upgrade nodes 1, 2, 3 and 100 to 9\.1; node 1 died again"):
        upgrade.check_healed()


def test_a_node_that_was_shut_down_and_not_started_yet_is_started_by_undoing() -> None:
    cluster = FakeCluster()
    upgrade = started(cluster)
    cluster.nodes[2].stops_with = 9
    with pytest.raises(NotInEffect, match="the shutdown was not clean: node 2 exited with status 9"):
        ticked(upgrade)
    upgrade.undo()
    assert cluster.nodes[2].is_alive()
    healing = upgrade.check_healed()
    assert healing.evidence.startswith("upgraded node 1 to 9.1, but not nodes 2, 3 and 100; ")


def test_nodes_of_the_new_version_are_left_as_they_are() -> None:
    cluster = FakeCluster()
    for number in (1, 3):
        cluster.nodes[number].runs = cluster.nodes[number].installed = "9.1"
    assert "the first of 2" in Upgrade(site_of(cluster), EVERYONE).inject()
    assert [cluster.nodes[number].pid for number in (1, 2, 3)] == [1000, 1001, 1000]
    with pytest.raises(NotInEffect, match=r"nodes 1 and 3 run 9\.1 already"):
        Upgrade(site_of(cluster), (1, 3)).inject()


def nemesis(cluster: FakeCluster, clock: FakeClock, *entries: ScheduledFault) -> tuple[NemesisRunner, list[dict]]:
    rows: list[dict] = []
    schedule = Schedule(entries)
    runner = NemesisRunner(site_of(cluster, clock), schedule, lambda *_: None, rows.append, lambda _: None)
    return runner, rows


UPGRADE = ScheduledFault(1, 1_000, "upgrade", FaultTarget("everyone"), 1_000, {})


def test_the_end_of_the_main_phase_does_not_cut_an_upgrade_short() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    late = ScheduledFault(2, 1_050, "kill", FaultTarget("broker"), 1_000, {})
    runner, (rows) = nemesis(cluster, clock, UPGRADE, late)
    runner.run(0, int(1.06e9), lambda: False)
    (row,) = rows
    assert (row["kind"], row["took_hold"], row["healed"]) == ("upgrade", True, True)
    assert versions(cluster) == ["9.1"] * 4
    assert row["started_ns"] < 1.06e9 < row["ended_ns"]


def test_an_aborted_run_does_not_wait_for_an_upgrade() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    runner, rows = nemesis(cluster, clock, UPGRADE)
    runner.run(0, int(9e9), lambda: clock.now_ns() > 1.1e9)
    assert "but not nodes" in rows[0]["evidence"]
    assert all(node.is_alive() for node in cluster.nodes.values())


def test_after_a_node_is_lost_the_rest_of_the_schedule_goes_on() -> None:
    cluster, clock = FakeCluster(), FakeClock()

    class Fragile(type(cluster.nodes[2])):
        def start(self) -> None:
            super().start()
            self.alive = self.runs == "9.0"

    cluster.nodes[2] = Fragile(2)
    kill = ScheduledFault(2, 3_000, "kill", FaultTarget("broker", pick=1), 500, {})
    runner, rows = nemesis(cluster, clock, UPGRADE, kill)
    runner.run(0, int(9e9), lambda: False)
    upgrade, killed = rows
    assert (upgrade["took_hold"], upgrade["healed"]) == (True, False)
    assert "upgraded node 1 to 9.1, but not nodes 2, 3 and 100; node 2 died again" in upgrade["evidence"]
    assert runner.unhealed == [], "a node that is lost is a finding, and does not stop the others"
    assert (killed["targets"], killed["healed"]) == ([3], True)


def test_a_second_upgrade_does_not_take_effect_and_leaves_nothing_to_heal() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    again = ScheduledFault(2, 5_000, "upgrade", FaultTarget("everyone"), 1_000, {})
    runner, rows = nemesis(cluster, clock, UPGRADE, again)
    runner.run(0, int(9e9), lambda: False)
    first, second = rows
    assert (first["took_hold"], first["healed"]) == (True, True)
    assert (second["took_hold"], second["healed"]) == (False, True)
    assert "nodes 1, 2, 3 and 100 run 9.1 already" in second["evidence"]
    assert runner.unhealed == []
    assert [node.pid for node in cluster.nodes.values()] == [1001] * 4


def test_a_schedule_gets_one_upgrade_in_time() -> None:
    kill = ScheduledFault(4, 9_000, "kill", FaultTarget("broker"), 500, {})
    schedule = with_upgrade(Schedule((kill,)), 60_000, "controllers")
    upgrade, later = schedule.entries
    assert later == kill
    assert (upgrade.entry, upgrade.at_ms, upgrade.target.role) == (5, 5_000, "everyone")
    assert upgrade.parameters == {"first": "controllers"}
    assert with_upgrade(schedule, 60_000, "brokers") == schedule, "it has one"
    assert with_upgrade(Schedule(()), 10_000, "brokers").entries[0].at_ms == 2_000
