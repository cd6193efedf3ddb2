"""`harrow sim --compiled`: what it prints, how it ends, and what a wrong copy leads to."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import harness
from harness.commands import cli
from harness.commands.simulation import sweep as sweep_command
from harness.run.stopping import Stop
from harness.store.progress import ProgressFile
from harness.terminal.exits import ExitStatus
from simulation.runs import compiled_copy
from simulation.runs.compiled_copy import Compiled, CopyChoice
from simulation.runs.compiling import MADE, SIMULATION, digest, failure_of
from simulation.runs.sweep import simulate
from tests.simulation.small import LIES, QUICK

ROOT = Path(harness.__file__).parent.parent
HARROW = "from harness.commands.cli import main; main()"
LIMIT_S = 120.0


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the copies are; the working directory is an empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    directory = tmp_path / "cache" / "harrow" / "compiled"
    directory.mkdir(parents=True)
    return directory


def flags(overrides: dict[str, object]) -> list[str]:
    return [word for key, value in overrides.items() for word in ("--set", f"{key}={str(value).lower()}")]


def test_always_fails_with_one_line_where_there_is_no_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", "--seeds", "1:2", "--compiled", "always"])
    assert ended.value.code == ExitStatus.FAILED
    *_, line = capsys.readouterr().err.splitlines()
    assert line == (
        "harrow: --compiled always: expected what compiling needs, found that there is no C compiler; "
        "see `harrow doctor compiled`"
    )


def test_a_long_sweep_says_at_once_why_it_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(compiled_copy, "_ESTIMATED_AFTER_S", 0.0)
    monkeypatch.setattr(compiled_copy, "_POLL_S", 0.0)
    monkeypatch.setattr(sweep_command, "PLAIN_EVERY_S", 0.0)
    console = Console(record=True, width=300, file=io.StringIO())
    with CopyChoice(Compiled.AUTO, 3, worth_s=0.0) as copy, ProgressFile(Path("runs"), "sweep", "three") as file:
        progress = sweep_command._SweepProgress(console, 3, None, file)
        sweep_command._swept([1, 2, 3], QUICK, 1, None, copy, Stop(), progress)
    lines = console.export_text().splitlines()
    told = "not compiled, which would have been faster: there is no C compiler; see `harrow doctor compiled`"
    assert lines.count(told) == 1
    assert lines.index(told) < next(number for number, line in enumerate(lines) if line.startswith("2 of 3 seeds"))


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_ends_and_leaves_nothing(signal_number: int, store: Path) -> None:
    command = [sys.executable, "-c", HARROW, "sim", "--seeds", "1:9", "--compiled", "always", "--jobs", "1"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end_s = time.monotonic() + LIMIT_S
    while not list(store.glob(".building-*")):
        assert running.poll() is None
        assert time.monotonic() < end_s
        time.sleep(0.02)
    running.send_signal(signal_number)
    out, err = running.communicate(timeout=LIMIT_S)
    assert running.returncode == ExitStatus.UNKNOWN, err
    assert out.startswith("0 seeds in ")
    assert [path.name for path in store.iterdir()] == ["lock"]
    working = [Path(entry, "cmdline") for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    assert not [path for path in working if str(store).encode() in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_hash_that_only_the_copy_has_is_told_and_rejects_it(store: Path, tmp_path: Path) -> None:
    copy = store / digest(SIMULATION)
    copy.mkdir()
    (copy / MADE).touch()
    failed = simulate(4, LIES, True)
    assert failed.findings
    console = Console(record=True, width=300)
    kept = []
    for result in (failed._replace(compiled=True), failed._replace(compiled=True, digest="0123456789abcdef")):
        assert failure_of(store, copy.name) is None
        with CopyChoice(Compiled.AUTO, 1) as choice:
            assert choice.imports == copy
            kept += sweep_command._store([result], LIES, tmp_path / "runs", False, choice, console).values()
    assert len(kept) == 2
    why = f"seed 4: hash 0123456789abcdef compiled, {failed.digest} plain"
    assert failure_of(store, copy.name) == why
    assert f"the compiled copy is wrong, and is not used again: {why}" in console.export_text()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_compiled_simulator_is_the_plain_one(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds the real copy; the C compiler need not optimise, which would take most of the time."""
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))

    def swept(*arguments: str) -> dict[str, object]:
        command = [sys.executable, "-c", HARROW, "sim", "--json", "--keep", "0", "--jobs", "1", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode in (ExitStatus.VALID, ExitStatus.ANOMALIES), done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    measured = ("seconds", "seeds_a_minute", "compiled")
    random_seeds = ("--seeds", "31:40")
    lying = ("--seeds", "1:10", "--flaw", "ack-before-replication", *flags(QUICK))
    first = swept(*random_seeds, "--compiled", "always")
    for mode, arguments in (("always", random_seeds), ("auto", lying)):
        compiled = swept(*arguments, "--compiled", mode)
        plain = swept(*arguments, "--compiled", "never")
        assert compiled["compiled"] == compiled["seeds"] == plain["seeds"]
        assert plain["compiled"] == 0
        assert {key: compiled[key] for key in compiled if key not in measured} == {
            key: plain[key] for key in plain if key not in measured
        }
        assert bool(plain["failures"]) is (arguments == lying), "hashes are compared where there are failures"
    assert first["compiled"] == 10
