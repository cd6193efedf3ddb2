"""A compiled copy is there in full and checked, or not at all."""

from __future__ import annotations

import ast
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from simulation.runs import compiling
from simulation.runs.compiled_copy import Builder
from simulation.runs.compiling import MADE, SIMULATION, CannotCompile, Recipe, build, digest, failure_of
from tests.simulation.runs import tiny_package

LIMIT_S = 60.0
HANGS = "import time; time.sleep(600)"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    return directory


@pytest.fixture
def tiny(tmp_path: Path) -> Recipe:
    return tiny_package.recipe(tmp_path)


def until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s, "it never came"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def left_in(store: Path) -> list[str]:
    return sorted(path.name for path in store.iterdir() if path.name != "lock")


# --- the name


def test_a_copy_is_named_by_what_it_is_made_of(tiny: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    name = digest(tiny)
    assert digest(tiny) == name
    hot = Path(tiny.source, "tiny", "hot.py")
    compiled = hot.with_name("hot.so")
    compiled.touch()
    assert digest(tiny) == name, "what a build made is no source"
    hot.write_text(hot.read_text() + "\n")
    assert digest(tiny) != name
    changed = digest(tiny)
    hot.rename(hot.with_name("hotter.py"))
    assert digest(tiny) not in (name, changed)
    hot.with_name("hotter.py").rename(hot)
    monkeypatch.setattr(sys, "version", "3.99")
    assert digest(tiny) not in (name, changed)


# --- building


@pytest.mark.slow
def test_a_real_build_is_compiled_and_complete(tiny: Recipe, store: Path) -> None:
    build(tiny, store, digest(tiny))
    assert left_in(store) == [digest(tiny)]
    copy = store / digest(tiny)
    assert list((copy / "tiny").glob("hot*.so"))
    assert (copy / MADE).is_file()
    assert not (copy / "build").exists()
    command = [sys.executable, "-c", "import tiny.hot; print(tiny.hot.__file__, tiny.hot.twice(4))"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), tiny.source])}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=store)
    where, _, number = ran.stdout.strip().rpartition(" ")
    assert where.startswith(str(copy))
    assert where.endswith(".so")
    assert number == "8"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (tiny_package.BUILDS_WRONG, "found 'twice 42' and 'twice 63'"),
        (tiny_package.FAILS, "expected mypyc and the C compiler to succeed, found status 1"),
        ("pass", "expected the compiled copy to run, found status 0"),
    ],
)
def test_what_differs_or_does_not_compile_is_no_copy(
    script: str, expected: str, tiny: Recipe, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_BUILD", script)
    with pytest.raises(CannotCompile) as caught:
        build(tiny, store, digest(tiny))
    assert expected in str(caught.value)
    assert left_in(store) == [f"{digest(tiny)}.failed"]
    assert failure_of(store, digest(tiny)) == str(caught.value)
    if script == tiny_package.FAILS:
        assert "no such register" in (store / f"{digest(tiny)}.failed").read_text()


def test_a_build_after_a_failure_replaces_it(tiny: Recipe, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_BUILD", tiny_package.BUILDS)
    build(tiny, store, digest(tiny))
    compiling.reject(store, digest(tiny), "seed 4 differs")
    (store / digest(tiny) / "old").touch()
    build(tiny, store, digest(tiny))
    assert failure_of(store, digest(tiny)) is None
    assert not (store / digest(tiny) / "old").exists()
    (store / digest(tiny) / "kept").touch()
    build(tiny, store, digest(tiny))
    assert (store / digest(tiny) / "kept").exists(), "a copy that is there is not built again"


def test_sources_that_change_meanwhile_make_no_copy(tiny: Recipe, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_BUILD", tiny_package.BUILDS)
    name = digest(tiny)
    Path(tiny.source, "tiny", "cold.py").write_text("")
    with pytest.raises(CannotCompile, match="expected sources that stay as they are"):
        build(tiny, store, name)
    assert not (store / name).exists()


def test_the_second_builder_waits_for_the_first(tiny: Recipe, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_BUILD", tiny_package.BUILDS)
    second = threading.Thread(target=build, args=(tiny, store, digest(tiny)), daemon=True)
    with (store / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second.start()
        second.join(0.5)
        assert second.is_alive()
        assert left_in(store) == []
    second.join(LIMIT_S)
    assert left_in(store) == [digest(tiny)]


def test_old_copies_go_but_not_those_in_use(tiny: Recipe, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_BUILD", tiny_package.BUILDS)
    for age, name in enumerate(("newest", "second", "third", "fourth", "in-use")):
        (store / name).mkdir()
        (store / name / MADE).touch()
        os.utime(store / name / MADE, (1_000_000 - age, 1_000_000 - age))
    (store / ".building-killed" / "tiny").mkdir(parents=True)
    with (store / "in-use" / MADE).open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        build(tiny, store, digest(tiny))
    assert left_in(store) == sorted([digest(tiny), "newest", "second", "in-use"])


# --- interrupting


def test_a_builder_that_is_stopped_leaves_nothing(tmp_path: Path, store: Path) -> None:
    hanging = tiny_package.recipe(tmp_path, HANGS)
    builder = Builder(hanging, store, digest(hanging))
    until(lambda: left_in(store))
    assert builder.running_after(0)
    builder.stop()
    assert not builder.running_after(0)
    assert left_in(store) == []


def test_compilers_end_with_their_builder(
    tmp_path: Path, tiny: Recipe, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid.new\nmv {tmp_path}/pid.new {tmp_path}/pid\nexec sleep 600\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    builder = Builder(tiny, store, digest(tiny))
    until((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    assert not gone(pid)
    builder.stop()
    until(lambda: gone(pid))
    assert left_in(store) == []


def test_a_builder_does_not_outlive_a_process_that_is_killed(tmp_path: Path, store: Path) -> None:
    hanging = tiny_package.recipe(tmp_path, HANGS)
    program = f"""
import sys
from pathlib import Path
from simulation.runs.compiled_copy import Builder
from simulation.runs.compiling import Recipe
builder = Builder(Recipe.from_json({hanging.to_json()!r}), Path({str(store)!r}), {digest(hanging)!r})
print(builder._process.pid, flush=True)
sys.stdin.read()
"""
    starter = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    assert starter.stdin is not None
    pid = int(starter.stdout.readline())
    until(lambda: left_in(store))
    assert not gone(pid)
    starter.kill()
    starter.wait()
    until(lambda: gone(pid))
    assert left_in(store) == []
    starter.stdin.close()
    starter.stdout.close()


def test_every_pattern_of_the_simulator_finds_modules() -> None:
    for pattern in SIMULATION.modules:
        assert list(Path(SIMULATION.source).glob(pattern)), pattern
    for directory in SIMULATION.plain:
        assert Path(SIMULATION.source, directory).is_dir()


def test_no_name_of_an_exception_has_two_types_in_a_compiled_function() -> None:
    """mypyc gives the name the type of the first clause, and the second one fails with a `TypeError`."""
    source = Path(SIMULATION.source)
    modules = {path for pattern in SIMULATION.modules for path in source.glob(pattern)}
    compiled = [path for path in modules if not any(source / plain in path.parents for plain in SIMULATION.plain)]
    assert compiled
    twice = []
    for path in compiled:
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                types: defaultdict[str, set[str]] = defaultdict(set)
                for clause in ast.walk(function):
                    if isinstance(clause, ast.ExceptHandler) and clause.name and clause.type:
                        types[clause.name].add(ast.unparse(clause.type))
                twice += [f"{path}: {function.name}: {name}" for name, found in types.items() if len(found) > 1]
    assert twice == []
