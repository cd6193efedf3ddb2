"""The comparison of searches: what counts as a hit, that it continues, and its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.simulation import search_comparison as comparison
from benchmarks.simulation.search_table import Trial, load, page
from simulation.invariants.observer import property_observers
from simulation.runs.choice_files import load as load_choices
from simulation.runs.failures import findings
from simulation.scenario.case import Case, run
from tests.simulation.small import QUICK

SMALL = ":".join(
    ["usual", "brokers=3", "controllers=1", "duration_ms=12000", "operations=30", "polls=20", "sole_survivor=false"]
)

MUTANT = "log/log:Log.append_as_leader:dropped-statement"
"""Something that a leader does for every batch."""


def task(flaw: str, seconds: float = 20.0, hits: Path | None = None, strategy: str = SMALL) -> comparison.TrialTask:
    return comparison.TrialTask(flaw, "", strategy, 1, seconds, hits)


def test_a_hit_is_stored_and_its_choice_file_has_the_same_hash(tmp_path: Path) -> None:
    found = comparison.trial(task("ack-before-replication", hits=tmp_path))
    assert found.hit
    assert found.seed is not None
    assert found.seed > comparison.SEEDS_APART, "the second repetition has seeds of its own"
    assert (found.property_id, found.differs, found.defects) == ("P-12", False, ())
    (path,) = tmp_path.iterdir()
    choices = load_choices(path)
    assert run(choices.case(), property_observers()).digest == choices.digest


def test_a_trial_ends_when_its_processor_time_is_used_up() -> None:
    found = comparison.trial(task("metadata-cut-below-commit", seconds=0.3))
    assert not found.hit
    assert found.runs >= 1
    assert found.spent_s >= 0.3


def test_what_fails_without_the_flaw_is_no_hit_but_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_fails_without", lambda *_: True)
    found = comparison.trial(task("ack-before-replication", seconds=0.3))
    assert not found.hit
    assert found.defects
    assert "fails on the correct build too: ack-before-replication" in page([found])


def test_a_failure_is_sought_in_the_same_faults_without_the_flaw() -> None:
    lying: dict[str, object] = {**QUICK, "flaws": ("ack-before-replication",)}
    outcome = run(Case(1, lying), property_observers())
    (finding, *_) = findings(outcome)
    assert not comparison._fails_without(1, lying, outcome, finding)
    losing: dict[str, object] = {**lying, "generation": "K3"}  # which loses records without any flaw
    faults = {"faults": ("page-cache-loss", "kill"), "fault_interval_ms": 500}
    outcome = run(Case(47, {**losing, **faults, "flaws": ()}), property_observers())
    (finding, *_) = findings(outcome)
    assert finding.property_id == "P-2"
    assert comparison._fails_without(47, losing, outcome, finding)


@pytest.mark.slow
def test_a_mutant_is_hunted_and_taken_out_for_the_correct_build(monkeypatch: pytest.MonkeyPatch) -> None:
    (mutant_id,) = [one for one in comparison.mutants_by_id() if one.startswith(MUTANT)][:1]
    function = comparison.function_of(comparison.mutants_by_id()[mutant_id])
    original = function.__code__
    used = []
    fails_without = comparison._fails_without
    monkeypatch.setattr(
        comparison, "_fails_without", lambda *given: [used.append(function.__code__), fails_without(*given)][1]
    )
    try:
        found = comparison.trial(task("")._replace(mutant=mutant_id))
        assert found.hit
        assert used == [original]
        assert function.__code__ is not original
    finally:
        function.__code__ = original


def test_an_interrupted_comparison_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "search.jsonl"
    done = Trial("ack-before-replication", SMALL, 0, 5.0, True, 1.5, 3, 3, "P-12")
    results.write_text(json.dumps(done._asdict()) + "\n", encoding="utf-8")
    arguments = ["--flaws", done.build, "--strategies", SMALL, "--seconds", "5", "--results", str(results)]
    assert comparison.main([*arguments, "--repetitions", "2"]) == 0
    trials = load(results)
    assert trials[0] == done
    assert [one.repetition for one in trials] == [0, 1]
    assert "2 of 2 trials" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--flaws", "gremlin"], "expected the name of a flaw"),
        (["--mutants", "log/log:nowhere"], "expected the id of a mutant"),
        (["--strategies", "widest"], "expected the name of a search"),
        (["--strategies", "usual:brokers=many"], "expected a whole number"),
    ],
)
def test_wrong_names_are_refused(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        comparison.main(arguments)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


def test_the_table_has_the_median_over_all_trials_and_how_many_have_found_it() -> None:
    def trial(strategy: str, hit: bool, spent_s: float) -> Trial:
        return Trial("late-cut", strategy, 0, 20.0, hit, spent_s, 10)

    text = page(
        [
            *(trial("usual", hit, spent_s) for hit, spent_s in ((False, 20.0), (True, 4.0), (False, 20.0))),
            *(trial("focused", hit, spent_s) for hit, spent_s in ((True, 3.0), (False, 20.0), (True, 5.0))),
        ]
    )
    assert "| B-45 `late-cut` | > 20 s (1 of 3) | 5.0 s (2 of 3) |" in text
    assert "- `usual`: 1 of 3 trials, 1 of 1 builds; 44 s of processor time, 30 simulations, 44.0 s a hit" in text


def test_the_table_is_written_between_the_marks_of_a_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{comparison.BEGIN}\nold\n{comparison.END}\nafter\n", encoding="utf-8")
    comparison.write(path, "new")
    assert path.read_text(encoding="utf-8") == f"before\n{comparison.BEGIN}\nnew\n{comparison.END}\nafter\n"
    path.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="expected the marks"):
        comparison.write(path, "new")
