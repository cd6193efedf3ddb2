"""Which copy a sweep runs, when one is built beside it, and what becomes of one that is wrong."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

import pytest

from simulation.runs import compiled_copy, compiling
from simulation.runs.compiled_copy import Compiled, CopyChoice, lacking
from simulation.runs.compiling import MADE, SIMULATION, CannotCompile, Recipe, build, digest, failure_of, reject
from simulation.runs.sweep import SeedResult, Tally, sweep
from tests.simulation.runs import tiny_package
from tests.simulation.small import QUICK

MANY = 1_000_000


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_copy, "_ESTIMATED_AFTER_S", 0.0)
    monkeypatch.setattr(compiled_copy, "_POLL_S", 0.0)
    monkeypatch.setattr(compiling, "_BUILD", tiny_package.BUILDS)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    return directory


@pytest.fixture
def tiny(tmp_path: Path) -> Recipe:
    return tiny_package.recipe(tmp_path)


class PlantedBuilder:
    """Works for three polls; then there is a copy, or not."""

    made: list[PlantedBuilder] = []

    def __init__(self, recipe: Recipe, store: Path, name: str) -> None:
        self.recipe, self.store, self.name = recipe, store, name
        self.polls = 0
        self.stopped = False
        PlantedBuilder.made.append(self)

    def running_after(self, seconds: float) -> bool:
        self.polls += 1
        if self.polls < 3:
            return True
        with contextlib.suppress(CannotCompile):
            build(self.recipe, self.store, self.name)
        return False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def builders(monkeypatch: pytest.MonkeyPatch) -> list[PlantedBuilder]:
    PlantedBuilder.made = []
    monkeypatch.setattr(compiled_copy, "Builder", PlantedBuilder)
    return PlantedBuilder.made


# --- choosing


@pytest.mark.parametrize("mode", [Compiled.AUTO, Compiled.ALWAYS])
def test_a_copy_that_is_there_is_used_from_the_first_seed(mode: Compiled, tiny: Recipe, store: Path) -> None:
    build(tiny, store, digest(tiny))
    with CopyChoice(mode, 1, recipe=tiny, store=store) as choice:
        assert choice.imports == store / digest(tiny)
        assert not choice.must_build
    with CopyChoice(Compiled.NEVER, 1, recipe=tiny, store=store) as never:
        assert never.imports is None
        assert not never.must_build


def test_a_copy_of_other_sources_is_not_used(tiny: Recipe, store: Path) -> None:
    build(tiny, store, digest(tiny))
    Path(tiny.source, "tiny", "cold.py").write_text("")
    with CopyChoice(Compiled.AUTO, 1, recipe=tiny, store=store) as choice:
        assert choice.imports is None


def test_a_long_sweep_goes_over_once_the_copy_is_built(
    tiny: Recipe, store: Path, builders: list[PlantedBuilder]
) -> None:
    with CopyChoice(Compiled.AUTO, MANY, recipe=tiny, store=store, worth_s=0.0) as choice:
        assert choice.imports is None
        assert [choice.seen() for _ in range(6)] == [False, False, False, True, False, False]
        assert choice.imports == store / digest(tiny)
    assert len(builders) == 1
    assert choice.note is None


@pytest.mark.parametrize(("seeds", "deadline_s"), [(3, None), (MANY, 5.0)])
def test_a_short_sweep_builds_nothing_and_says_nothing(
    seeds: int, deadline_s: float | None, tiny: Recipe, store: Path, builders: list[PlantedBuilder]
) -> None:
    deadline = None if deadline_s is None else time.monotonic() + deadline_s
    with CopyChoice(Compiled.AUTO, seeds, deadline, recipe=tiny, store=store, worth_s=10.0) as choice:
        assert not any(choice.seen() for _ in range(3))
    assert not builders
    assert choice.note is None
    with CopyChoice(Compiled.AUTO, MANY, recipe=tiny, store=store, worth_s=1e-9) as long:
        long.seen()
        assert len(builders) == 1, "the same sweep builds if it is longer"
        assert not builders[0].stopped
        long.stop_building()
        assert builders[0].stopped, "a sweep that ends first ends its builder"
    with CopyChoice(Compiled.AUTO, MANY, recipe=tiny, store=store, worth_s=1e-9) as left:
        left.seen()
    assert builders[1].stopped, "so does one that an error ends"


def test_without_a_compiler_a_long_sweep_stays_plain_and_says_so(
    tiny: Recipe, store: Path, builders: list[PlantedBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with CopyChoice(Compiled.AUTO, MANY, recipe=tiny, store=store, worth_s=0.0) as choice:
        assert not any(choice.seen() for _ in range(3))
    assert not builders
    assert choice.note == (
        "not compiled, which would have been faster: there is no C compiler; see `harrow doctor compiled`"
    )
    with CopyChoice(Compiled.ALWAYS, 1, recipe=tiny, store=store) as always:
        assert always.must_build
        with pytest.raises(CannotCompile, match=r"--compiled always: .* there is no C compiler"):
            always.build(lambda: False)


def test_a_failed_build_is_told_and_not_tried_again_but_by_always(
    tiny: Recipe, store: Path, builders: list[PlantedBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_BUILD", tiny_package.BUILDS_WRONG)
    with CopyChoice(Compiled.AUTO, MANY, recipe=tiny, store=store, worth_s=0.0) as choice:
        assert not any(choice.seen() for _ in range(6))
        assert choice.imports is None
    assert choice.note is not None
    assert choice.note.startswith("not compiled: expected equal hashes plain and compiled, found 'twice 42'")
    with CopyChoice(Compiled.AUTO, MANY, recipe=tiny, store=store, worth_s=0.0) as again:
        assert not any(again.seen() for _ in range(6))
    assert again.note == f"{choice.note}; --compiled always tries again"
    assert len(builders) == 1
    with (
        CopyChoice(Compiled.ALWAYS, 1, recipe=tiny, store=store) as failing,
        pytest.raises(CannotCompile, match="--compiled always: expected equal hashes"),
    ):
        failing.build(lambda: False)
    monkeypatch.setattr(compiling, "_BUILD", tiny_package.BUILDS)
    with CopyChoice(Compiled.ALWAYS, 1, recipe=tiny, store=store) as always:
        always.build(lambda: False)
        assert always.imports == store / digest(tiny)


def test_stopping_ends_a_build_without_an_error(tiny: Recipe, store: Path, builders: list[PlantedBuilder]) -> None:
    with CopyChoice(Compiled.ALWAYS, 1, recipe=tiny, store=store) as choice:
        choice.build(lambda: True)
    assert builders[0].stopped
    assert choice.imports is None


# --- what is needed


def test_what_is_lacking_is_named(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lacking(store) is None
    closed = store / "file" / "store"
    (store / "file").touch()
    assert str(lacking(closed)) == f"nothing can be written to {closed}, or no library loaded from it"
    monkeypatch.setattr(compiled_copy, "may_execute", lambda directory: False)
    assert str(lacking(store)) == f"nothing can be written to {store}, or no library loaded from it"
    monkeypatch.setattr(compiled_copy.sysconfig, "get_paths", lambda: {"include": str(store)})
    assert str(lacking(store)) == "there is no header of Python"
    monkeypatch.setenv("CC", "no-such-compiler -pthread")
    assert str(lacking(store)) == "there is no C compiler"
    monkeypatch.setattr(compiled_copy.importlib.util, "find_spec", lambda name: None)
    assert str(lacking(store)) == "the Python package mypy is not installed"


# --- a sweep


def planted_copy(store: Path, statement: str) -> Path:
    """The simulator as a copy in the store, with a statement of its own at the begin of each simulation."""
    copy = store / digest(SIMULATION)
    for package in SIMULATION.packages:
        shutil.copytree(Path(SIMULATION.source, package), copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / "simulation" / "runs" / "sweep.py"
    begin = "    outcome = cases.run("
    assert begin in path.read_text()
    path.write_text(path.read_text().replace(begin, f"    {statement}\n{begin}"))
    (copy / MADE).touch()
    return copy


def swept(store: Path) -> tuple[list[SeedResult], CopyChoice]:
    with CopyChoice(Compiled.AUTO, 4, store=store) as choice:
        return sorted(sweep(range(1, 5), QUICK, 1, copy=choice)), choice


def test_workers_run_the_copy_and_not_the_sources(store: Path) -> None:
    planted_copy(store, "return SeedResult(seed, (), 'from the copy', 0, 0, {}, True)")
    results, choice = swept(store)
    assert [result.digest for result in results] == ["from the copy"] * 4
    assert choice.note is None
    tally = Tally()
    for result in results:
        tally.add(result)
    assert tally.compiled == 4


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("if seed == 2: import os; os._exit(9)", "its process died: exit status 9"),
        ("if seed == 2: raise KeyError(seed)", "KeyError: 2 (sweep.py:"),
    ],
)
def test_a_copy_that_fails_where_the_sources_do_not_is_rejected(statement: str, why: str, store: Path) -> None:
    planted_copy(store, statement)
    results, choice = swept(store)
    assert results == sorted(sweep(range(1, 5), QUICK, 1))
    assert not any(result.findings for result in results)
    assert choice.imports is None
    assert choice.note is not None
    assert choice.note.startswith("not compiled: seed 2 failed in the compiled copy only: ")
    assert why in choice.note
    with CopyChoice(Compiled.AUTO, 4, store=store) as later:
        assert later.imports is None, "it is not used again"


def test_a_seed_that_fails_both_ways_is_a_failure_and_the_copy_stays(store: Path) -> None:
    copy = planted_copy(store, "pass")
    with CopyChoice(Compiled.AUTO, 4, store=store) as choice:
        results = list(sweep([1], {**QUICK, "no_such_key": 1}, 1, copy=choice))
        assert choice.imports == copy
    assert [finding.layer for finding in results[0].findings] == ["crash"]
    assert failure_of(store, digest(SIMULATION)) is None


def test_a_rejection_is_one_line(store: Path) -> None:
    reject(store, "name", "seed 3:\n differs", "a\nb")
    assert failure_of(store, "name") == "seed 3: differs"
    assert failure_of(store, "other") is None
