"""The runner in a fake environment: phases, tables, and what is left after a failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from harness.environments.base import EnvironmentFailed, Traits
from harness.run import runner
from harness.run.context import Plan, RunContext, RunOutcome
from harness.run.stopping import Interrupted, RunFailed, Stop
from harness.spec.spec import Spec, from_json
from harness.store.journal import is_finished, read_journal
from harness.terminal.console import RunProgress
from history.reader import read_table
from nemesis.schedule import Schedule, ScheduledFault, loads
from nemesis.targets import FaultTarget
from tests.support.fake_cluster import FakeNode
from tests.support.fake_environment import FakeEnvironment, FakeSystem, quiet

KILL = ScheduledFault(1, 100, "kill", FaultTarget("leader", 1), 300, {})
SPEC = Spec(seed=3, duration=1.0, faults=("kill",), concurrency=5)


class Play:
    """A run with fake parts."""

    def __init__(self, directory: Path, entries: tuple[ScheduledFault, ...] = (KILL,), spec: Spec = SPEC) -> None:
        self.directory = directory
        self.environment = FakeEnvironment(directory)
        self.stop = Stop()
        self.said = quiet()
        self.plan = Plan(spec, Schedule(entries), directory, "harrow run --seed 3")

    def run(self) -> RunOutcome:
        with RunProgress(Console(file=self.said, width=200)) as progress:
            system = FakeSystem(self.environment)
            return runner.run(self.plan, system, lambda _journal: self.environment, progress, self.stop, self.rest)

    def rest(self) -> None:
        self.heard_before_rest = [list(worker.heard) for worker in self.environment.workers]

    def table(self, name: str) -> list[dict[str, object]]:
        return read_table(self.directory, name).to_pylist()

    def left_in_order(self) -> bool:
        finished = is_finished(list(read_journal(self.directory)))
        ended = all(process.status is not None for process in self.environment.processes)
        return finished and ended and self.environment.torn_down == 1 and not self.environment.is_up


def test_a_node_that_a_fault_kills_during_a_check_has_not_died_by_itself(tmp_path: Path) -> None:
    context = RunContext(*([None] * 8))
    context.environment = FakeEnvironment(tmp_path)
    context.system = FakeSystem(context.environment)
    noted: list[tuple[str, str]] = []
    context.trouble = lambda text, source: noted.append((text, source))
    nodes = context.environment.cluster.nodes
    nodes[2].alive = False
    context.record_lost_nodes(lambda: frozenset({2}))
    context.record_lost_nodes(lambda: nodes[2].start() or frozenset())  # the fault let go of it meanwhile
    assert (noted, context.lost_nodes) == ([], frozenset())
    nodes[2].alive = False
    context.record_lost_nodes()
    context.record_lost_nodes()  # it is recorded once
    ((text, source),) = noted
    assert "expected node 2 to go on, found that it died of itself" in text
    assert (source, context.lost_nodes) == ("node", frozenset({2}))


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


def test_a_run_leaves_every_table_that_the_harness_writes(play: Play) -> None:
    outcome = play.run()
    assert (outcome.fired, outcome.took_hold, outcome.troubles) == (1, 1, [])
    (run,) = play.table("runs")
    assert (run["seed"], run["workers"], run["faults_wanted"], run["acks"]) == (3, 2, True, -1)
    assert run["run_id"] == play.directory.name
    assert [row["phase"] for row in play.table("phases")] == ["set-up", "main", "recovery", "final", "tear-down"]
    (fault,) = play.table("faults")
    assert (fault["kind"], fault["targets"], fault["took_hold"], fault["healed"]) == ("kill", [2], True, True)
    assert {row["broker"] for row in play.table("cluster")} == {1, 2, 3}
    assert [(row["partition"], row["end_offset"], row["agreed"]) for row in play.table("ends")] == [
        (number, 10, True) for number in range(3)
    ]
    logs = play.table("logs")
    assert len(logs) == 3 * 3 * 10
    assert logs[0]["value"] == 0
    assert play.left_in_order()


def test_a_run_can_be_had_again_from_what_it_stored(play: Play) -> None:
    play.run()
    assert from_json((play.directory / "spec.json").read_text()) == SPEC
    assert loads((play.directory / "schedule.json").read_text()) == play.plan.schedule
    stored = json.loads((play.directory / "spec.json").read_text())
    assert stored["mechanisms"] == {"network": "by wishing"}


def test_phases_follow_one_another_on_one_clock(play: Play) -> None:
    play.run()
    rows = play.table("phases")
    for before, after in zip(rows, rows[1:], strict=False):
        assert before["started_ns"] <= before["ended_ns"] <= after["started_ns"]


def test_workers_share_rate_and_processes_and_get_their_configuration(play: Play) -> None:
    play.run()
    configs = [json.loads((play.directory / "clients" / f"worker-{each}.json").read_text()) for each in (0, 1)]
    assert [config["producers"] for config in configs] == [3, 2]
    assert sum(config["rate"] for config in configs) == SPEC.rate
    assert configs[0]["bootstrap"] == ["10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"]
    for worker in play.environment.workers:
        drain, final = worker.heard
        assert drain == "drain"
        assert json.loads(final.removeprefix("final "))["harrow"] == {"0": 10, "1": 10, "2": 10}


@pytest.mark.parametrize(("accepted_ms", "session_ms"), [(0, 3_000), (2_000, 3_000), (6_000, 6_000)])
def test_members_of_groups_have_a_session_that_the_system_accepts(
    accepted_ms: int, session_ms: int, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeSystem, "traits", Traits(session_ms_min=accepted_ms))
    play.run()
    config = json.loads((play.directory / "clients" / "worker-0.json").read_text())
    assert config["session_timeout_ms"] == session_ms


def test_the_cluster_is_at_rest_between_the_writes_and_the_final_reads(play: Play) -> None:
    play.run()
    assert play.heard_before_rest == [["drain"], ["drain"]]


def test_a_run_without_faults_wants_none(tmp_path: Path) -> None:
    play = Play(tmp_path, entries=())
    assert play.run().fired == 0
    assert play.table("runs")[0]["faults_wanted"] is False


def test_progress_shows_phases_and_faults(play: Play) -> None:
    play.run()
    said = play.said.getvalue()
    assert "main: 1 s, 1 fault" in said
    assert "kill the leader of harrow-1: node 2 (process 1000) killed and reaped" in said


def test_the_parts_of_the_history_are_united_at_the_end_which_is_said_if_they_are_many(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PARTS_MANY", 1)
    play.run()
    assert "part files of the history" in play.said.getvalue()
    writers = [part for part in (play.directory / "history" / "phases").iterdir() if "-harness-" in part.name]
    assert len(writers) == 1
    assert {row["phase"] for row in play.table("phases")} >= {"set-up", "main", "tear-down"}


def test_an_interrupted_run_heals_stops_and_keeps_its_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(tmp_path, entries=(replace(KILL, duration_ms=60_000),), spec=replace(SPEC, duration=60.0))
    victim = play.environment.cluster.nodes[2]
    kill = victim.kill
    monkeypatch.setattr(victim, "kill", lambda: (kill(), play.stop.request()))
    with pytest.raises(Interrupted):
        play.run()
    (fault,) = play.table("faults")
    assert fault["healed"]
    assert all(node.is_ready() for node in play.environment.cluster.nodes.values())
    assert [row["phase"] for row in play.table("phases")] == ["set-up", "main", "tear-down"]
    assert play.left_in_order()


def test_a_cluster_that_cannot_be_set_up_is_torn_down(play: Play) -> None:
    play.environment.breaks = EnvironmentFailed("expected a disk, found none")
    with pytest.raises(EnvironmentFailed, match="expected a disk"):
        play.run()
    assert play.left_in_order()
    assert play.table("runs")


def test_a_node_that_does_not_start_is_reported_with_its_last_log_lines(play: Play) -> None:
    play.environment.cluster.nodes[3].alive = False
    with pytest.raises(RunFailed, match="expected node 3 to go on, found that it died of itself") as caught:
        play.run()
    assert "last words of node 3" in str(caught.value)
    assert play.left_in_order()


def when_the_main_phase_begins(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    main_phase = runner.main_phase
    monkeypatch.setattr(runner, "main_phase", lambda context: (act(), main_phase(context)))


ALL_PHASES = ["set-up", "main", "recovery", "final", "tear-down"]


def test_a_node_that_dies_by_itself_is_recorded_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path)
    play.environment.cluster.insync = (2, 3)
    when_the_main_phase_begins(monkeypatch, play.environment.cluster.nodes[1].kill)
    outcome = play.run()
    (trouble,) = play.table("troubles")
    assert (trouble["phase"], trouble["source"]) == ("main", "node")
    assert str(trouble["text"]).startswith("expected node 1 to go on, found that it died of itself")
    assert "last words of node 1" in str(trouble["text"])
    assert outcome.took_hold == 1  # the faults went on
    assert [row["phase"] for row in play.table("phases")] == ALL_PHASES
    assert [row["agreed"] for row in play.table("ends")] == [True] * 3
    assert {row["broker"] for row in play.table("logs")} == {2, 3}
    assert play.left_in_order()


def test_a_node_that_ends_with_an_error_is_lost_and_its_last_words_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path)
    play.environment.cluster.insync = (2, 3)
    node = play.environment.cluster.nodes[1]
    node.ends_with, node.log = 1, ("java.io.IOException: no room", "\tat a.b(C.java:1)", "INFO unregistered")
    monkeypatch.setattr(FakeSystem, "traits", Traits(not_back_after=frozenset({"full-disk"})))
    when_the_main_phase_begins(monkeypatch, node.kill)
    outcome = play.run()
    (row,) = play.table("losses")
    assert (row["node"], row["exit_status"], row["exempt"]) == (1, 1, ["full-disk"])
    assert row["last_words"] == "java.io.IOException: no room"
    assert (outcome.took_hold, outcome.troubles) == (1, [])
    assert "node 1 is lost: it ended with status 1: java.io.IOException: no room" in play.said.getvalue()
    assert [row["phase"] for row in play.table("phases")] == ALL_PHASES


@pytest.mark.parametrize("status", [-9, -15, 137, 143, 0])
def test_a_node_that_someone_else_may_have_ended_is_not_lost(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path)
    play.environment.cluster.insync = (2, 3)
    play.environment.cluster.nodes[1].ends_with = status
    when_the_main_phase_begins(monkeypatch, play.environment.cluster.nodes[1].kill)
    play.run()
    assert play.table("losses") == []
    assert [row["source"] for row in play.table("troubles")] == ["node"]


def test_a_worker_that_ends_is_recorded_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(tmp_path)
    when_the_main_phase_begins(monkeypatch, lambda: play.environment.workers[1].end(4))
    play.run()
    (trouble,) = play.table("troubles")
    assert trouble["source"] == "harness"
    assert "expected worker 1 to go on, found that it ended with status 4" in str(trouble["text"])
    drain, final = play.environment.workers[0].heard
    assert (drain, final.split()[0]) == ("drain", "final")
    assert play.table("logs")
    assert play.left_in_order()


def test_what_the_system_refuses_all_workers_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(tmp_path)
    line = "expected one thing, found another"

    def refuse() -> None:
        for worker in play.environment.workers:
            worker.say("refused", message=line)

    when_the_main_phase_begins(monkeypatch, refuse)
    play.run()
    (trouble,) = play.table("troubles")
    assert (trouble["text"], trouble["source"], trouble["phase"]) == (line, "cluster", "main")
    assert all(len(worker.heard) == 2 for worker in play.environment.workers), "the workers go on"


def test_a_run_whose_workers_have_all_ended_is_still_torn_down_and_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path, spec=replace(SPEC, duration=60.0))
    when_the_main_phase_begins(monkeypatch, lambda: [worker.end(4) for worker in play.environment.workers])
    outcome = play.run()
    assert "expected a worker to go on, found that all of them have ended" in outcome.troubles
    assert [row["phase"] for row in play.table("phases")] == ALL_PHASES
    assert play.left_in_order()


def breaks(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied", "/dev/net/tun")


@pytest.mark.parametrize(
    ("place", "phase"),
    [
        ("harness.run.phases.TopicWatch.check", "main"),
        ("nemesis.runner.NemesisRunner.run", "main"),
        ("harness.run.phases._await_recovery", "recovery"),
        ("harness.run.phases._stop_writes", "recovery"),
        ("harness.run.phases.partition_ends", "recovery"),
        ("harness.run.phases._read_to_the_ends", "final"),
        ("harness.run.phases._dump_logs", "final"),
        ("harness.run.workers.Worker.stop", "final"),
        ("tests.support.fake_environment.FakeEnvironment.tear_down", "tear-down"),
    ],
)
def test_an_error_of_the_harness_ends_one_step_and_no_other(
    play: Play, monkeypatch: pytest.MonkeyPatch, place: str, phase: str
) -> None:
    monkeypatch.setattr(place, breaks)
    play.run()
    assert [row["phase"] for row in play.table("phases")] == ALL_PHASES
    trouble = play.table("troubles")[0]
    assert (trouble["phase"], trouble["source"]) == (phase, "harness")
    assert "PermissionError: [Errno 13] Permission denied: '/dev/net/tun'" in str(trouble["text"])
    if phase != "tear-down":
        assert "in breaks" in (play.directory / "errors.log").read_text()
        assert is_finished(list(read_journal(play.directory)))
    else:
        assert "`harrow heal`" in str(trouble["text"])
        assert not is_finished(list(read_journal(play.directory)))  # so that `harrow heal` looks at it


def test_a_fault_whose_mechanism_cannot_be_opened_does_not_take_hold_and_keeps_no_other_from_it(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.plan = replace(play.plan, schedule=Schedule((KILL, replace(KILL, entry=2, at_ms=500, kind="pause"))))
    monkeypatch.setattr(FakeNode, "pause", breaks)
    outcome = play.run()
    assert (outcome.fired, outcome.took_hold, outcome.troubles) == (2, 1, [])
    kill, pause = play.table("faults")
    assert (kill["took_hold"], pause["took_hold"]) == (True, False)
    assert "did not take effect: PermissionError" in str(pause["evidence"])


def test_links_that_cannot_be_mended_at_the_end_are_trouble(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.faults.base.SharedLinks.clear", breaks)
    outcome = play.run()
    assert outcome.took_hold == 1
    assert [row["source"] for row in play.table("troubles")] == ["harness"]
    assert play.table("ends")


def test_ends_that_replicas_do_not_agree_on_are_recorded_so(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.phases.AGREE_S", 0.3)
    original = FakeSystem.replicas
    monkeypatch.setattr(FakeSystem, "replicas", lambda self, plan: () if plan.node_id == 3 else original(self, plan))
    outcome = play.run()
    assert outcome.troubles == ["the replicas do not agree on the end of harrow-0, harrow-1, harrow-2"]
    assert not any(row["agreed"] for row in play.table("ends"))


def test_a_cluster_that_does_not_recover_is_recorded_and_the_run_continues(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.run.phases.RECOVERED_S", 0.3)
    play.environment.cluster.insync = (1, 2)
    outcome = play.run()
    assert outcome.troubles == ["the cluster had not recovered after 0.3 s: harrow-0 has an ISR without 3"]
    assert play.table("ends")
