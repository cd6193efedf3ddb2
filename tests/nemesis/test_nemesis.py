from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from history.schema import FAULTS
from nemesis.capabilities.cluster import NodeError
from nemesis.runner import NemesisRunner, mend
from nemesis.schedule import Schedule, ScheduledFault
from nemesis.targets import FaultTarget, Role, Trigger
from tests.support.fake_cluster import FakeClock, FakeCluster, quorum_cluster, site_of

SECOND_NS = 1_000_000_000


@dataclass
class Stage:
    """A nemesis runner, its input and its output."""

    entries: list[ScheduledFault]
    cluster: FakeCluster = field(default_factory=FakeCluster)
    clock: FakeClock = field(default_factory=FakeClock)
    lossy_budget: int = 1
    journal: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    rows: list[Mapping[str, object]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runner = NemesisRunner(
            site_of(self.cluster, self.clock),
            Schedule(tuple(self.entries)),
            lambda event, details: self.journal.append((event, details)),
            self.rows.append,
            self.messages.append,
            self.lossy_budget,
        )

    def play(self, seconds: float = 60.0, aborted_at_s: float = float("inf")) -> Stage:
        self.runner.run(0, int(seconds * SECOND_NS), lambda: self.clock.ns >= aborted_at_s * SECOND_NS)
        return self

    def let_node_1_catch_up_at(self, at_s: float) -> None:
        """Keep node 1 out of the ISR until then."""
        sleep = self.clock.sleep

        def sleep_and_catch_up(seconds: float) -> None:
            sleep(seconds)
            self.cluster.insync = (2, 3) if self.clock.ns < at_s * SECOND_NS else (1, 2, 3)

        self.clock.sleep = sleep_and_catch_up

    def starts_s(self) -> list[float]:
        by_number = sorted(self.rows, key=lambda row: row["fault"])
        return [round(row["started_ns"] / SECOND_NS, 1) for row in by_number]


def entry(
    number: int, at_s: float, kind: str, target: FaultTarget, hold_s: float = 2, *, beside: bool = False
) -> ScheduledFault:
    return ScheduledFault(number, int(at_s * 1000), kind, target, int(hold_s * 1000), {}, beside)


def leader(partition: int, role: Role = "leader") -> FaultTarget:
    return FaultTarget(role, partition)


def test_a_fault_is_fired_in_time_held_and_healed() -> None:
    stage = Stage([entry(1, 5, "kill", leader(0), 3)]).play()
    (row,) = stage.rows
    assert row["took_hold"]
    assert row["healed"]
    assert row["targets"] == [1]
    assert row["started_ns"] == pytest.approx(5 * SECOND_NS, abs=SECOND_NS // 10)
    assert row["started_ns"] <= row["held_ns"] < row["started_ns"] + SECOND_NS
    assert row["ended_ns"] == pytest.approx(8 * SECOND_NS, abs=SECOND_NS // 5)
    assert set(row) == set(FAULTS.names) - {"run_id"}
    assert json.loads(row["parameters"])["role"] == "the leader of harrow-0"


def _starts_slowly(stage: Stage, seconds: float) -> None:
    """Every process serves only so long after its start."""
    sleep, seen = stage.clock.sleep, {number: (node.pid, 0) for number, node in stage.cluster.nodes.items()}

    def sleep_and_start(duration: float) -> None:
        sleep(duration)
        for number, node in stage.cluster.nodes.items():
            if node.pid != seen[number][0]:
                seen[number] = (node.pid, stage.clock.ns)
            pid, since_ns = seen[number]
            node.never_ready = pid != 1000 and stage.clock.ns < since_ns + seconds * SECOND_NS

    stage.clock.sleep = sleep_and_start


def test_a_rolling_restart_reaches_all_brokers_though_each_takes_most_of_its_time() -> None:
    stage = Stage([entry(1, 1, "rolling-restart", leader(0, "brokers"), 3), entry(2, 4.5, "kill", leader(0))])
    _starts_slowly(stage, 1.8)
    stage.play(120)
    rolled, killed = stage.rows
    assert "restarted nodes 1, 2 and 3" in rolled["evidence"]
    assert rolled["healed"]
    assert rolled["ended_ns"] > (1 + 3 * 1.8) * SECOND_NS
    assert killed["started_ns"] >= rolled["ended_ns"], "what follows waits"


def test_a_rolling_restart_that_gets_stuck_ends_all_the_same() -> None:
    stage = Stage([entry(1, 1, "rolling-restart", leader(0, "brokers"), 3)])
    _starts_slowly(stage, 10_000)
    stage.play(1_000)
    (row,) = stage.rows
    assert not row["healed"]
    assert "restarted node 1;" in row["evidence"]
    assert row["ended_ns"] < 15 * SECOND_NS


def test_the_journal_is_written_before_the_fault_is_injected() -> None:
    stage = Stage([entry(1, 1, "pause", leader(0))])
    seen = []
    pause = stage.cluster.nodes[1].pause
    stage.cluster.nodes[1].pause = lambda: (seen.extend(stage.journal), pause())[1]
    stage.play()
    assert [event for event, _ in seen] == ["fault-begins"]
    assert seen[0][1]["targets"] == [1]
    assert [event for event, _ in stage.journal] == ["fault-begins", "fault-ended"]


def test_a_fault_that_does_not_take_effect_is_undone_at_once_and_its_row_says_why() -> None:
    stage = Stage([entry(1, 1, "isolate", leader(0), 30)])
    stage.cluster.network.leaky = True
    stage.play()
    (row,) = stage.rows
    assert not row["took_hold"]
    assert row["held_ns"] is None
    assert row["healed"]
    assert "did not take effect: packets still pass" in row["evidence"]
    assert row["ended_ns"] < 5 * SECOND_NS
    assert not stage.cluster.network.cut


def test_after_a_fault_that_does_not_heal_no_more_are_fired() -> None:
    stage = Stage([entry(1, 1, "kill", leader(0)), entry(2, 20, "kill", leader(1))])
    stage.cluster.nodes[1].never_ready = True
    stage.play()
    (row,) = stage.rows
    assert row["took_hold"]
    assert not row["healed"]
    assert stage.runner.unhealed == ["fault 1 (kill 1) did not heal in 2.0 s: node 1 did not serve again"]


def test_a_node_that_does_not_start_leaves_a_row_with_its_last_log_lines() -> None:
    stage = Stage([entry(1, 1, "kill", leader(0))])
    stage.cluster.nodes[1].refuses_to_start = True
    stage.play()
    assert "no room" in stage.rows[0]["evidence"]
    assert not stage.rows[0]["healed"]


def test_a_node_that_dies_while_it_heals_is_not_waited_for() -> None:
    stage = Stage([entry(1, 1, "kill", leader(0))])
    node = stage.cluster.nodes[1]
    node.start = lambda: None
    stage.play()
    assert "did not heal in 0.1 s: node 1 died again" in stage.rows[0]["evidence"]


def test_after_a_node_is_lost_the_others_are_hit() -> None:
    stage = Stage([entry(1, 1, "kill", leader(0)), entry(2, 20, "kill", FaultTarget("broker", pick=0))])
    stage.cluster.nodes[1].start = lambda: None
    stage.play()
    assert [row["targets"] for row in stage.rows] == [[1], [2]]
    assert [row["healed"] for row in stage.rows] == [False, True]
    assert stage.runner.unhealed == []


def test_faults_wait_for_one_another() -> None:
    stage = Stage([entry(1, 1, "kill", leader(0), 10), entry(2, 5, "pause", leader(1))]).play()
    assert stage.starts_s()[1] >= 11


def test_an_entry_with_beside_is_fired_while_another_fault_is_active_and_avoids_its_targets() -> None:
    beside = entry(2, 3, "kill", leader(0, "in-sync-replicas"), beside=True)
    stage = Stage([entry(1, 1, "pause", leader(0), 10), beside]).play()
    by_number = {row["fault"]: row for row in stage.rows}
    assert by_number[2]["targets"] == [2, 3]
    assert by_number[2]["started_ns"] < by_number[1]["ended_ns"]


def test_an_entry_with_beside_is_as_late_as_the_fault_before_it() -> None:
    stage = Stage(
        [
            entry(1, 1, "pause", leader(0), 10),
            entry(2, 5, "kill", leader(0), 6),
            entry(3, 8, "kill", leader(1), beside=True),
        ]
    ).play()
    _, late, beside = stage.starts_s()
    assert beside - late == pytest.approx(3, abs=0.2)


def test_a_lossy_fault_waits_until_the_last_victim_is_back_in_the_isr() -> None:
    stage = Stage(
        [
            entry(1, 1, "page-cache-loss", leader(0)),
            entry(2, 5, "page-cache-loss", leader(1)),
        ]
    )
    stage.let_node_1_catch_up_at(20)
    stage.play()
    assert stage.starts_s()[1] == pytest.approx(20, abs=0.2)


def test_the_isr_is_not_believed_before_the_victim_runs_again() -> None:
    # The controller goes on listing a dead broker until its session ends.
    stage = Stage(
        [
            entry(1, 1, "page-cache-loss", leader(0), 8),
            entry(2, 3, "page-cache-loss", leader(1), 1, beside=True),
        ]
    ).play()
    assert stage.starts_s()[1] >= 9


def test_a_larger_budget_lets_lossy_windows_overlap() -> None:
    stage = Stage(
        [
            entry(1, 1, "page-cache-loss", leader(0), 8),
            entry(2, 3, "page-cache-loss", leader(1), 1, beside=True),
        ],
        lossy_budget=2,
    ).play()
    assert stage.starts_s()[1] == pytest.approx(3, abs=0.2)


def test_a_quorum_can_do_without_one_forgetful_controller_of_three_at_a_time() -> None:
    stage = Stage(
        [
            entry(1, 1, "page-cache-loss", FaultTarget("controller", pick=1)),
            entry(2, 5, "page-cache-loss", FaultTarget("controller", pick=2), beside=True),
        ],
        quorum_cluster(),
    )
    stage.cluster.lacking_metadata = frozenset({101})
    sleep = stage.clock.sleep

    def sleep_and_catch_up(seconds: float) -> None:
        sleep(seconds)
        stage.cluster.lacking_metadata = frozenset({101} if stage.clock.ns < 20 * SECOND_NS else ())

    stage.clock.sleep = sleep_and_catch_up
    stage.play()
    assert stage.starts_s()[1] == pytest.approx(20, abs=0.2)


def test_of_five_controllers_two_may_forget_at_once() -> None:
    stage = Stage(
        [
            entry(each, each, "page-cache-loss", FaultTarget("controller", pick=each), 8, beside=True)
            for each in (1, 2, 3)
        ],
        quorum_cluster(5),
    ).play()
    assert stage.starts_s()[1] == pytest.approx(2, abs=0.2)
    assert stage.starts_s()[2] >= 9


def test_forgetful_controllers_and_forgetful_brokers_do_not_wait_for_each_other() -> None:
    stage = Stage(
        [
            entry(1, 1, "page-cache-loss", FaultTarget("controller"), 8),
            entry(2, 3, "page-cache-loss", leader(0), 1, beside=True),
        ],
        quorum_cluster(),
    ).play()
    assert stage.starts_s()[1] == pytest.approx(3, abs=0.2)


def raised(number: int, at_s: float, hold_s: float = 2, *, beside: bool = False) -> ScheduledFault:
    return ScheduledFault(
        number, int(at_s * 1000), "raised-min-isr", leader(0), int(hold_s * 1000), {"pick": "0"}, beside
    )


def test_no_node_loses_data_until_the_isr_is_whole_after_a_change_of_min_isr() -> None:
    stage = Stage([raised(1, 1, 3), entry(2, 2, "page-cache-loss", leader(0), beside=True)])
    stage.let_node_1_catch_up_at(20)
    stage.play()
    assert stage.starts_s()[1] == pytest.approx(20, abs=0.2)


def test_min_isr_is_not_changed_while_a_broker_lacks_what_it_lost() -> None:
    stage = Stage([entry(1, 1, "page-cache-loss", leader(0), 8), raised(2, 3, beside=True)]).play()
    assert stage.starts_s()[1] >= 9


def test_a_kill_needs_no_budget() -> None:
    stage = Stage([entry(1, 1, "page-cache-loss", leader(0)), entry(2, 5, "kill", leader(1))])
    stage.cluster.insync = (2, 3)
    stage.play()
    assert len(stage.rows) == 2


def test_at_the_end_everything_is_healed() -> None:
    stage = Stage(
        [
            entry(1, 1, "isolate", leader(0), 100),
            entry(2, 2, "pause", leader(1), 100, beside=True),
        ]
    ).play(seconds=5)
    assert len(stage.rows) == 2
    assert all(row["healed"] for row in stage.rows)
    assert not stage.cluster.network.cut
    assert all(node.is_ready() for node in stage.cluster.nodes.values())


def test_an_aborted_run_is_healed_at_once() -> None:
    stage = Stage([entry(1, 1, "kill", leader(0), 100)]).play(aborted_at_s=2)
    assert stage.rows[0]["healed"]
    assert stage.rows[0]["ended_ns"] < 3 * SECOND_NS


def test_an_entry_without_a_target_is_left_out_and_noted() -> None:
    stage = Stage([entry(1, 1, "kill", leader(0))])
    stage.cluster.speechless = True
    stage.play()
    assert not stage.rows
    assert "was not fired: no broker reports" in stage.messages[0]


def test_active_faults_have_titles() -> None:
    stage = Stage([entry(1, 1, "pause", leader(0), 100)])
    titles = set()
    sleep = stage.clock.sleep
    stage.clock.sleep = lambda seconds: (titles.add(stage.runner.active), sleep(seconds))[1]
    stage.play(seconds=5)
    assert ("pause 1",) in titles


def test_mending_undoes_what_no_fault_tracks() -> None:
    cluster = FakeCluster()
    cluster.network.cut = frozenset({(1, 2)})
    cluster.nodes[2].paused = True
    assert mend(site_of(cluster)) == []
    assert all(node.is_ready() for node in cluster.nodes.values())
    assert not cluster.network.cut


def test_mending_continues_after_a_node_that_fails() -> None:
    def refuse() -> None:
        raise NodeError("node 1 stays\nwhere it is")

    cluster = FakeCluster()
    cluster.nodes[1].paused = cluster.nodes[2].paused = True
    cluster.nodes[1].resume = refuse
    assert mend(site_of(cluster)) == ["node 1 stays where it is"]
    assert cluster.nodes[2].is_ready()


def test_a_node_that_died_by_itself_stays_dead() -> None:
    stage = Stage([entry(1, 1, "pause", leader(0))])
    stage.cluster.nodes[3].alive = False
    stage.play()
    assert not stage.cluster.nodes[3].is_alive()


def triggered(number: int, kind: str, when: Trigger, *, beside: bool = True) -> ScheduledFault:
    return replace(entry(number, 0, kind, leader(1), beside=beside), when=when)


def test_a_trigger_fires_when_its_condition_is_true_and_not_before() -> None:
    stage = Stage([entry(1, 4, "kill", leader(0)), triggered(2, "pause", Trigger("isr-at-most", 0, 2))])
    kill = stage.cluster.nodes[1].kill
    stage.cluster.nodes[1].kill = lambda: (setattr(stage.cluster, "insync", (2, 3)), kill())[1]
    stage.play()
    assert [row["kind"] for row in sorted(stage.rows, key=lambda row: row["fault"])] == ["kill", "pause"]
    assert stage.starts_s()[1] == pytest.approx(4, abs=0.2)
    assert any(note.startswith("isr-at-most 2 of partition 0: pause of the leader") for note in stage.messages)


def test_a_trigger_whose_condition_is_never_true_is_logged_and_delays_no_fault() -> None:
    stage = Stage([triggered(1, "pause", Trigger("no-leader")), entry(2, 5, "kill", leader(0))]).play(20)
    assert [row["kind"] for row in stage.rows] == ["kill"]
    assert "pause of the leader of partition 1 was not fired: no-leader of partition 0 was never true" in stage.messages


def test_a_fault_that_has_work_to_do_while_it_is_active_does_it() -> None:
    stage = Stage([entry(1, 1, "crash-loop", leader(0), hold_s=5)]).play()
    assert stage.cluster.nodes[1].deaths >= 4
    assert stage.rows[0]["healed"]


def test_work_that_fails_ends_the_fault() -> None:
    stage = Stage([entry(1, 1, "crash-loop", leader(0), hold_s=5)])
    stage.cluster.nodes[1].refuses_to_start = True
    stage.play()
    (row,) = stage.rows
    assert "given up: node 1 ended with status 4" in row["evidence"]
    assert not row["healed"]


def test_a_fault_hits_again_what_an_earlier_entry_hit_as_soon_as_that_serves() -> None:
    again = FaultTarget("same", entry=1)
    stage = Stage([entry(1, 1, "restart", leader(1)), entry(2, 1.1, "page-cache-loss", again)])
    stage.play()
    first, second = sorted(stage.rows, key=lambda row: row["fault"])
    assert first["targets"] == second["targets"] == [2]
    assert second["started_ns"] >= first["ended_ns"]
    assert json.loads(second["parameters"])["role"] == "what entry 1 hit"


def test_nobody_is_hit_again_while_another_fault_holds_it_or_before_it_was_hit() -> None:
    again = FaultTarget("same", entry=1)
    stage = Stage([entry(1, 1, "pause", leader(1), 5), entry(2, 2, "kill", again, beside=True)]).play()
    assert len(stage.rows) == 1
    assert "kill of what entry 1 hit was not fired: node 2 is gone or held by another fault" in stage.messages
    stage = Stage([entry(2, 2, "kill", again)]).play()
    assert "kill of what entry 1 hit was not fired: entry 1 has hit nobody" in stage.messages
