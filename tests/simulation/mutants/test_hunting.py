"""Mutants are found by the simulator and by tests; the correct broker is not; an interrupted hunt continues."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.simulation.mutants import __main__ as command
from benchmarks.simulation.mutants import hunting, simulating
from benchmarks.simulation.mutants.hunting import acting_in, hunt_in_simulator
from benchmarks.simulation.mutants.making import ROOT, Mutant, all_mutants, fingerprint
from benchmarks.simulation.mutants.page import Fate, Reasons, page, reasons, summary
from benchmarks.simulation.mutants.planting import function_of
from benchmarks.simulation.mutants.probes import Instrumented
from benchmarks.simulation.mutants.results import Results
from benchmarks.simulation.mutants.simulating import (
    DIED,
    FINDING,
    TIME_OUT,
    HuntResult,
    HuntTask,
    NotNeutral,
    ProbedSeed,
    ProbeTask,
    hunt,
)
from benchmarks.simulation.mutants.testing import ShownMutant
from simulation.runs.sweep import SeedResult

LEADER = "broker/core/replica/leader.py"
QUORUM = "broker/core/rules/quorum.py"


def written(module: str, function: str, old: str, new: str) -> Mutant:
    """A mutant with `new` instead of the only `old` in the module."""
    source = (ROOT / module).read_text(encoding="utf-8")
    assert source.count(old) == 1, (module, old)
    begin = source.encode().index(old.encode())
    return Mutant(f"{module}:{new}", module, function, 1, "by hand", begin, begin + len(old.encode()), new, f"+{new}")


GUARD = "if not rules.high_watermark.may_advance("
COMMITS_TOO_EARLY = written(LEADER, "advance_high_watermark", GUARD, GUARD.replace("not ", ""))
NO_MISTAKE = written(LEADER, "advance_high_watermark", GUARD, GUARD)


def test_the_correct_broker_passes() -> None:
    digests = {seed: simulating.simulate(seed, {"search": "mixed"}, observed=True).digest for seed in (1, 2)}
    found = hunt(HuntTask(NO_MISTAKE, {1: (), 2: ()}, "mixed", digests))
    assert found._replace(spent_s=0) == HuntResult(NO_MISTAKE.id, "", 2, 2)


def test_what_takes_another_course_is_counted() -> None:
    digests = {seed: simulating.simulate(seed, {}, observed=True).digest for seed in (1, 2)}
    found = hunt(HuntTask(NO_MISTAKE, {1: (), 2: ()}, "usual", {**digests, 2: "of another broker"}))
    assert (found.how, found.seeds, found.other_courses) == ("", 2, 1)
    assert hunt(HuntTask(NO_MISTAKE, {1: (), 2: ()}, "mixed", digests)).other_courses == 2


def test_a_mutant_is_found_in_a_process_of_its_own() -> None:
    code = function_of(COMMITS_TOO_EARLY).__code__
    found = hunt(HuntTask(COMMITS_TOO_EARLY, {1: (), 2: ()}))
    assert (found.how, found.seed, found.seeds, found.layer) == (FINDING, 1, 1, "invariant")
    assert found.property_id.startswith("P-")
    assert function_of(COMMITS_TOO_EARLY).__code__ is code


def test_what_the_correct_broker_shows_in_a_seed_is_no_finding() -> None:
    found = hunt(HuntTask(COMMITS_TOO_EARLY, {1: ()}))
    again = hunt(HuntTask(COMMITS_TOO_EARLY, {1: ((found.layer, found.property_id),)}))
    assert found.how == FINDING
    assert (again.layer, again.property_id) != (found.layer, found.property_id)


def test_a_mutant_that_goes_on_for_ever_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulating, "SEED_S_MAX", 0.5)
    endless = COMMITS_TOO_EARLY._replace(end=COMMITS_TOO_EARLY.begin, text="while True: pass\n    ")
    found = hunt(HuntTask(endless, {1: (), 2: ()}))
    assert (found.how, found.seeds) == (TIME_OUT, 1)


def test_a_mutant_whose_process_dies_is_told_apart() -> None:
    deadly = COMMITS_TOO_EARLY._replace(end=COMMITS_TOO_EARLY.begin, text="__import__('os')._exit(7)\n    ")
    found = hunt(HuntTask(deadly, {1: ()}))
    assert (found.how, found.what) == (DIED, "the process ended with 7")


# --- results ---------------------------------------------------------------------------------------------------------


CHOSEN = [COMMITS_TOO_EARLY, NO_MISTAKE]


def results_of(path: Path) -> Results:
    results = Results.open(path, "sources", range(1, 2), "usual")
    if not results.probed:
        results.add(ProbedSeed(1, (), (0, 1), (0, 1)))
    return results


def test_a_hunt_continues_where_it_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results = results_of(path)
    acting = acting_in(results, CHOSEN)
    assert acting == {one.id: [1] for one in CHOSEN}

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hunt_in_simulator(results, CHOSEN, acting, 1, interrupt)
    with path.open("a") as file:
        file.write('{"kind": "hunt", "mut')  # what a process that is killed leaves
    told: list[str] = []
    again = results_of(path)
    assert len(again.hunted) == 1
    hunt_in_simulator(again, CHOSEN, acting, 1, told.append)
    assert len(told) == 1
    last = results_of(path)
    assert last.hunted == again.hunted
    assert last.probed == results.probed
    assert {id_: bool(one.how) for id_, one in last.hunted.items()} == {
        COMMITS_TOO_EARLY.id: True,
        NO_MISTAKE.id: False,
    }
    assert [json.loads(line).get("kind") for line in path.read_text().splitlines()] == [None, "seed", "hunt", "hunt"]


def test_results_of_other_sources_or_seeds_or_another_search_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results_of(path)
    with pytest.raises(ValueError, match="--results"):
        Results.open(path, "other sources", range(1, 2), "usual")
    with pytest.raises(ValueError, match="--results"):
        Results.open(path, "sources", range(1, 3), "usual")
    with pytest.raises(ValueError, match="of the search mixed, found"):
        Results.open(path, "sources", range(1, 2), "mixed")


def test_probes_that_change_what_a_seed_does_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter("ab")
    monkeypatch.setattr(simulating, "_instrumented", lambda: Instrumented({}))
    monkeypatch.setattr(simulating, "simulate", lambda *_, **__: SeedResult(1, (), next(digests), 1, 1, {}))
    with pytest.raises(NotNeutral, match="expected hash a, found b"):
        simulating.probe(ProbeTask(1))


# --- tests -----------------------------------------------------------------------------------------------------------

TESTS = """
from broker.core.rules.quorum import QuorumRules


def test_that_calls_the_rule():
    assert QuorumRules().end_that_counts(8, 11) {}
"""


def shown(tmp_path: Path, condition: str) -> subprocess.CompletedProcess[str]:
    """What a test with that condition makes of a broker that counts a record more."""
    tests = tmp_path / "test_of_a_rule.py"
    tests.write_text(TESTS.format(condition))
    mutant = written(QUORUM, "QuorumRules.end_that_counts", "return flushed", "return flushed + 1")
    command = (sys.executable, "-m", "tests.simulation.mutants.showing", json.dumps(mutant), str(tests))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)


def test_a_test_that_fails_finds_a_mutant(tmp_path: Path) -> None:
    result = ShownMutant(*json.loads(shown(tmp_path, "== 8").stdout))
    assert result.test.endswith("::test_that_calls_the_rule")
    assert result.shown_to == 1


def test_a_test_that_looks_at_nothing_finds_none(tmp_path: Path) -> None:
    result = ShownMutant(*json.loads(shown(tmp_path, "is not None").stdout))
    assert (result.test, result.shown_to, result.error) == ("", 1, False)


def test_tests_must_pass_without_a_mutant(tmp_path: Path) -> None:
    done = shown(tmp_path, "== 9")
    assert done.returncode != 0
    assert "FailingTests: expected tests that pass without a mutant, found" in done.stderr
    assert "test_that_calls_the_rule" in done.stderr


# --- page ------------------------------------------------------------------------------------------------------------


def test_the_page_counts_every_mutant_once_and_shows_survivors_with_their_reasons(tmp_path: Path) -> None:
    mutants = all_mutants()[:8]
    ids = [mutant.id for mutant in mutants]
    results = Results.open(tmp_path / "results.jsonl", "sources", range(1, 4), "mixed")
    for seed in results.seeds:
        results.add(ProbedSeed(seed, (), (1, 2, 3, 4, 5, 6, 7), (2, 3, 4, 5, 6, 7)))
    results.add(HuntResult(ids[3], FINDING, 2, 2, "invariant", "P-1", "P-1: wrong"))
    for number, test in ((4, "tests/x.py::test_y"), (5, "")):
        results.add(HuntResult(ids[number], "", 3, 3, other_courses=2))
        results.add(ShownMutant(ids[number], test, "", 9, False))
    results.add(HuntResult(ids[6], TIME_OUT, 1, 1))
    results.add(HuntResult(ids[7], "", 3, 1))
    expected = (
        *(Fate.UNREACHED, Fate.IDLE, Fate.WAITING, Fate.SIMULATOR),
        *(Fate.TESTS, Fate.SURVIVOR, Fate.SIMULATOR, Fate.UNDECIDED),
    )
    figures = summary(mutants, results)
    assert tuple(figures.fates[id_] for id_ in ids) == expected
    text = page(mutants, results, Reasons({ids[5]: "It does not matter."}, {"gone": "Old."}))
    words = " ".join(text.split())
    assert "8 mutants were made. In 3 seeds, 1 to 3 of the search `mixed`, 1 of them were never carried out" in words
    assert "and 1 never acted differently; 6 did." in words
    assert "a sample of 5 was hunted. The simulator found 2 and missed 3, of which 1 change nothing" in words
    assert (
        "it found 2 of 4 real mistakes, 50 %. Tests found 1 of the others, and so both together 75 %; 1 survived; "
        "the tests have not decided about 1." in words
    )
    assert "1 because it never ended" in text
    assert f"### {ids[5]}" in text
    assert "Harmless: It does not matter." in text
    assert "explains 1 more, which this hunt has not drawn, or has found" in text
    assert "Hunted again" not in text
    assert "acts differently in 3 seeds, of which 2 take another course; found by `tests/x.py::test_y`." in text
    assert "in 3 seeds, and was tried in the first 1, of which none takes another course; undecided." in text
    assert "1 of the misses were tried in the first of their seeds only, 1 to 1 of them." in words
    assert text.index(f"### {ids[5]}") < text.index(f"### {ids[7]}") < text.index(f"### {ids[4]}")
    assert "Not explained yet." in page(mutants, results, Reasons({}, {}))


def test_the_page_keeps_the_figures_of_a_first_hunt_and_says_what_a_later_one_finds(tmp_path: Path) -> None:
    mutants = all_mutants()[:4]
    ids = [mutant.id for mutant in mutants]
    first = Results.open(tmp_path / "first.jsonl", "sources", range(1, 2), "mixed")
    later = Results.open(tmp_path / "later.jsonl", "later sources", range(1, 2), "mixed")
    first.add(ProbedSeed(1, (), (0, 1, 2, 3), (0, 1, 2, 3)))
    first.add(HuntResult(ids[0], FINDING, 1, 1, "invariant", "P-1", "P-1: wrong"))
    for id_ in ids[1:]:
        first.add(HuntResult(id_, "", 1, 1))
        first.add(ShownMutant(id_, "", "", 9, False))
    later.add(HuntResult(ids[1], FINDING, 1, 1, "invariant", "P-99", "P-99: wrong"))
    for id_, test in ((ids[2], "tests/x.py::test_y[case]"), (ids[3], "")):
        later.add(HuntResult(id_, "", 1, 1))
        later.add(ShownMutant(id_, test, "", 9, False))
    text = page(mutants, first, Reasons({ids[3]: "It does not matter."}, {}), Results.again(later.path))
    words = " ".join(text.split())
    assert "it found 1 of 3 real mistakes, 33 %. Tests found 0 of the others, and so both together 33 %; 3" in words
    assert "the simulator now finds 2 of 3, 67 %, and the tests 1 more, together 100 %." in words
    sections = text.split("### ")
    assert [name for name in ids for part in sections if part.startswith(name) and "Hunted again" in part] == ids[1:3]
    assert "it is found by the simulator: P-99." in text
    assert "it is found by `tests/x.py::test_y`." in text


def test_a_later_hunt_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "later.jsonl"
    path.write_text('{"format": 1, "sources": "", "seeds": [1, 2], "search": "mixed"}\n')
    with pytest.raises(ValueError, match="in the format 2, found 1"):
        Results.again(path)


def test_a_sample_leaves_out_what_earlier_hunts_have_hunted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, mutants = tmp_path / "results.jsonl", all_mutants()
    results = Results.open(path, fingerprint(mutants), range(1, 2), "mixed")
    results.add(ProbedSeed(1, (), tuple(range(9)), tuple(range(9))))
    earlier = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]  # of other sources and seeds
    for number, one in enumerate(earlier):
        Results.open(one, "others", range(1, 61), "usual").add(HuntResult(mutants[3 * number].id, "", 2, 2))
    chosen: list[Mutant] = []
    monkeypatch.setattr(hunting, "hunt_in_simulator", lambda _, sampled, *__: chosen.extend(sampled))
    arguments = ["mutants", "--count", "9", "--seeds", "1:2", "--tests", "none", "--results", str(path)]
    monkeypatch.setattr("sys.argv", [*arguments, *(word for one in earlier for word in ("--apart-from", str(one)))])
    assert command.main() == 0
    assert {one.id for one in chosen} == {one.id for one in mutants[:9]} - {mutants[0].id, mutants[3].id}
    monkeypatch.setattr("sys.argv", [*arguments, "--apart-from", str(tmp_path / "gone.jsonl")])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "gone.jsonl" in capsys.readouterr().err


def test_reasons_are_sentences() -> None:
    assert all(why.endswith(".") for part in reasons() for why in part.values())
    assert not set(reasons().harmless) & set(reasons().unseen)


def test_the_command_lists_mutants(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["mutants", "--list", "--only", "rules/quorum:"])
    assert command.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("rules/quorum:QuorumRules.")
    assert {line[0] for line in lines} == {"r", "-", "+"}
