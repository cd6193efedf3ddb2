"""Hunts for a few known flaws: hunting, shrinking, judging, and the page with the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.rules.flaws import FLAWS
from harness.commands import cli
from harness.terminal.exits import ExitStatus
from simulation.invariants.observer import property_observers
from simulation.known_flaws import hunt, page
from simulation.known_flaws.hunt import FirstFinding, Hunt, HuntTask, ShrunkSize
from simulation.runs.checked_histories import Named, Scheduled
from simulation.runs.failures import Layer, SimulationFinding
from simulation.runs.pool import Pool
from simulation.runs.sweep import SeedResult
from simulation.scenario import case as cases
from simulation.scenario.case import Case

LIAR = FLAWS["ack-before-replication"]


def hunted_through(flaw: str | None, seeds: int) -> Hunt:
    with Pool[HuntTask, SeedResult](hunt.work, 2) as pool:
        return hunt.hunt(pool, Hunt(FLAWS[flaw] if flaw else None, 0, 0.0), seeds, lambda: False)


@pytest.mark.slow
def test_a_false_acknowledgement_is_found_by_the_observer_and_in_the_history() -> None:
    hunted = hunted_through(LIAR.name, 30)
    assert hunted.found
    assert hunted.first_findings[Layer.INVARIANT].finding.property_id == "P-12"
    assert Layer.HISTORY in hunted.first_findings
    assert hunted.seeds < 30, "it stops when both have found it"


def test_the_correct_build_is_hunted_in_vain() -> None:
    hunted = hunted_through(None, 6)
    assert (hunted.seeds, hunted.failing, hunted.found) == (6, (), False)


def test_a_hunt_ends_when_it_is_stopped() -> None:
    with Pool[HuntTask, SeedResult](hunt.work, 1) as pool:
        assert hunt.hunt(pool, Hunt(LIAR, 0, 0.0), 100, lambda: True).seeds == 0


def test_a_hunt_continues_where_it_was_interrupted(tmp_path: Path) -> None:
    notes = tmp_path / "hunts.json"
    begun = Hunt(
        LIAR,
        3,
        1.5,
        {Layer.LOGS: FirstFinding(2, SimulationFinding(Layer.LOGS, "divergent-replicas", "they differ"))},
        (2,),
    )
    begun = replace(begun, small=ShrunkSize(1, 2, 3), anomalies=("lost-read",), scheduled=("duplicate",))
    hunt.save_hunts(notes, [Hunt(None, 3, 1.0), begun])
    assert hunt.load_hunts(notes, [None, LIAR, FLAWS["late-cut"]]) == [
        Hunt(None, 3, 1.0),
        begun,
        Hunt(FLAWS["late-cut"], 0, 0.0),
    ]
    hunt.save_hunts(notes, [Hunt(FLAWS["late-cut"], 7, 1.0)])
    assert hunt.load_hunts(notes, [LIAR]) == [begun], "saving another flaw keeps this one"
    with Pool[HuntTask, SeedResult](hunt.work, 2) as pool:
        continued = hunt.hunt(pool, begun, 30, lambda: False)
    assert continued.failing[0] == 2
    assert continued.first == begun.first_findings[Layer.LOGS]
    assert min(seed for seed in continued.failing if seed != 2) > 3


def test_each_search_has_hunts_of_its_own_in_the_notes(tmp_path: Path) -> None:
    notes = tmp_path / "hunts.json"
    usual, dense = Hunt(LIAR, 3, 1.5), Hunt(LIAR, 5, 2.5, failing=(4,), search="dense")
    hunt.save_hunts(notes, [usual])
    hunt.save_hunts(notes, [dense])
    assert hunt.load_hunts(notes, [LIAR]) == [usual]
    assert hunt.load_hunts(notes, [LIAR], "dense") == [dense]
    assert hunt.load_hunts(notes, [LIAR], "mixed") == [Hunt(LIAR, 0, 0.0, search="mixed")]


def test_a_hunt_takes_the_seeds_of_its_search_with_the_flaw_and_without() -> None:
    begun = Hunt(LIAR, 0, 0.0, failing=(4,), search="focused")
    named = [one for one in hunt.histories([begun]) if isinstance(one, Named)]
    assert [(one.case.overrides["search"], "flaws" in one.case.overrides) for one in named] == [
        ("focused", True),
        ("focused", False),
    ]
    with Pool[HuntTask, SeedResult](hunt.work, 1) as pool:
        found = hunt.hunt(pool, Hunt(LIAR, 0, 0.0, search="focused"), 1, lambda: False)
    assert found.first is not None
    outcome = cases.run(Case(1, {**hunt.overrides_of(LIAR), "search": "focused"}), property_observers())
    assert found.first.finding.what == outcome.failure


def test_hunts_of_other_seeds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = tmp_path / "hunts.json"
    notes.write_text('{"format": 0, "hunts": []}')
    with pytest.raises(SystemExit) as ended:
        cli.main(["zoo", "--notes", str(notes)])
    assert ended.value.code == ExitStatus.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "expected hunts of choice format" in line


def test_rounds_end_with_what_was_asked_for() -> None:
    assert hunt.limits(5_000) == (20, 100, 300, 1_500, 5_000)
    assert hunt.limits(20) == (20,)


def test_directed_schedules_are_played_with_the_flaw_and_without() -> None:
    correct, hunted = hunt.all_played([Hunt(None, 0, 0.0), Hunt(LIAR, 0, 0.0)], 1)
    assert "invariant" in hunted.directed
    assert hunted.clients
    assert not correct.directed


def test_the_histories_of_each_flaw_begin_with_one_that_shows_it_and_end_with_its_schedule() -> None:
    first_finding = FirstFinding(9, SimulationFinding(Layer.HISTORY, "lost-acked-write", "gone"))
    hunted = Hunt(LIAR, 10, 0.0, {Layer.HISTORY: first_finding}, (3, 5, 7, 9))
    named = list(hunt.histories([Hunt(None, 3, 0.0), hunted]))
    ids = [one.run_id.removeprefix(f"{LIAR.name}-") for one in named]
    assert ids == ["9", "correct-K5-9", "3", "correct-K5-3", "5", "correct-K5-5", "flawed0", "correct0"]
    assert [one.flawed for one in named if isinstance(one, Scheduled)] == [True, False]


def test_what_the_correct_build_shows_too_does_not_count() -> None:
    found = {"9": {"lost-acked-write": 3}, "3": {"stale-read": 1}, "flawed0": {"duplicate": 1, "lost-read": 1}}
    found["correct0"] = {"duplicate": 1}
    by_run = {f"{LIAR.name}-{which}": what for which, what in found.items()}
    by_run |= {"correct-K5-9": {}, f"{LIAR.name}-5": {"reordered-send": 1}, "correct-K5-5": {"reordered-send": 2}}
    (judged,) = hunt.judged([Hunt(LIAR, 10, 0.0)], by_run)
    assert judged.anomalies == ("lost-acked-write", "stale-read")
    assert judged.scheduled == ("lost-read",)


def test_the_page_shows_which_layer_found_what_and_what_was_missed() -> None:
    found = Hunt(
        LIAR,
        4,
        1.0,
        {
            Layer.INVARIANT: FirstFinding(1, SimulationFinding(Layer.INVARIANT, "P-12", "it lied")),
            Layer.HISTORY: FirstFinding(3, SimulationFinding(Layer.HISTORY, "lost-acked-write", "gone")),
        },
        (1, 3),
        ("lost-acked-write",),
        ("lost-read",),
        ShrunkSize(0, 1, 2),
        ("invariant",),
    )
    missed = replace(Hunt(FLAWS["stale-answer-applied"], 4, 1.0), directed=("history",))
    text = page.page([found, missed], page.Control(4, 0), "harrow known-flaws", 3)
    assert (
        "| B-25 | ack-before-replication | P-15, P-12 | BB | 4 | P-12 @1 | - | lost-acked-write @3 | lost-acked-write "
        "| lost-read | 0 / 1 / 2 | invariant | yes |" in text
    )
    assert (
        "1 of 2 flaws found by random seeds (2 were tried), 2 by these, a directed schedule or exhaustive search"
        in text
    )
    assert "The correct build: 0 of 4 seeds failed." in text
    assert "- B-46 `stale-answer-applied` (4 seeds): found by its directed schedule (history)" in text


def test_the_page_explains_where_clients_see_more_than_the_catalogue() -> None:
    fenced = replace(Hunt(FLAWS["fenced-joins-isr"], 4, 1.0), directed=("invariant",))
    seen = replace(Hunt(FLAWS["session-forgets-epoch"], 4, 1.0), directed=("invariant",), clients=True)
    assert (page.difference(fenced) or "").startswith(
        "B-49 `fenced-joins-isr`, BB-adm in the catalogue; clients do not see it: a client would have to query"
    )
    assert "WB in the catalogue; clients see it" in (page.difference(seen) or "")
    assert page.difference(replace(fenced, anomalies=("lost-acked-write",))) is None
    text = page.page([fenced, seen], page.Control(4, 0), "harrow known-flaws", 3)
    assert "- B-49 `fenced-joins-isr`, BB-adm" in text


def test_the_page_explains_flaws_that_checkers_found_in_no_seed() -> None:
    late, idle = Hunt(FLAWS["late-cut"], 9, 1.0, failing=(7,)), Hunt(FLAWS["idle-isr-not-repaired"], 9, 1.0)
    by_schedule = replace(late, scheduled=("lost-acked-write",))
    assert page.only_by_schedule(by_schedule) == (
        "B-45 `late-cut`: nothing in 1 failing seeds; by its schedule lost-acked-write"
    )
    assert page.only_by_schedule(replace(by_schedule, anomalies=("lost-read",))) is None
    assert "this is not explained yet" in (page.only_by_schedule(replace(late, clients=True)) or "")
    reason = page.only_by_schedule(replace(idle, clients=True)) or ""
    assert "an unknown outcome is no anomaly" in reason
    text = page.page([by_schedule, replace(idle, clients=True)], page.Control(4, 0), "harrow known-flaws", 3)
    assert f"- {reason}" in text
    assert "clients have seen 2, and the checkers on Spark 1" in text


def test_only_flaws_have_reasons() -> None:
    assert set(page.REASONS) | set(page.BEYOND_CHECKERS) <= set(FLAWS)


def test_an_unknown_flaw_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["known-flaws", "--flaw", "gremlin"])
    assert ended.value.code == ExitStatus.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "found 'gremlin'" in line


@pytest.mark.slow
def test_the_command_writes_its_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "hunt.md"
    arguments = ["--seeds", "20", "--flaw", LIAR.name, "--no-check", "--shrink", "20", "--out", str(path)]
    with pytest.raises(SystemExit) as ended:
        cli.main(["known-flaws", *arguments])
    assert ended.value.code == ExitStatus.VALID
    output = capsys.readouterr()
    assert "1 of 1 flaws found by random seeds" in output.out
    assert "B-25 ack-before-replication: seed 1: P-12" in output.err
    assert "| 0 / 1 / 1 |" in path.read_text()


def test_what_the_correct_build_fails_by_in_the_same_seed_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, loses = (SimulationFinding(Layer.INVARIANT, name, "lost") for name in ("P-1", "P-12"))

    def simulate(seed: int, overrides: Mapping[str, object], observed: bool) -> SeedResult:
        return SeedResult(seed, (lost, loses) if "flaws" in overrides else (lost,), "", 0, 0, {})

    monkeypatch.setattr(hunt, "simulate", simulate)
    assert hunt.work(HuntTask(1, hunt.overrides_of(LIAR))).findings == (loses,)
    assert hunt.work(HuntTask(1, hunt.overrides_of(None))).findings == (lost,)
