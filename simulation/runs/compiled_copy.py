"""Chooses whether a sweep runs the compiled copy, and has one built beside a long sweep, which goes over to it.

A copy never decides alone: a seed that ends in a compiled worker without a result is simulated again plain, so are the
failing seeds that are stored, and a copy that turns out to differ is rejected for good.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, NamedTuple

from common.directories import cache_directory, may_execute
from simulation.runs.compiling import (
    MADE,
    SIMULATION,
    CannotCompile,
    Recipe,
    digest,
    failure_of,
    reject,
)

WORTH_S = 600.0
"""A copy is built beside a sweep whose rest would take this long plain, in seconds. Building takes some 150 seconds of
processor time, and nearly half of the plain time is saved afterwards, in later sweeps too."""

_ESTIMATED_AFTER_S = 5.0
_POLL_S = 0.5
_END_S = 10.0
_DOCTOR = "see `harrow doctor compiled`"


class Compiled(StrEnum):
    """Whether a sweep runs the compiled copy."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Lack(NamedTuple):
    """What compiling lacks on this machine."""

    kind: Literal["Python package", "program", "header", "directory"]
    name: str

    def __str__(self) -> str:
        if self.kind == "Python package":
            return f"the Python package {self.name} is not installed"
        return {
            "program": f"there is no {self.name}",
            "header": f"there is no {self.name}",
            "directory": f"nothing can be written to {self.name}, or no library loaded from it",
        }[self.kind]


def lacking(store: Path) -> Lack | None:
    """What a build would lack, with its copies in `store`; None if nothing."""
    for distribution, module in (("mypy", "mypyc"), ("setuptools", "setuptools")):
        if importlib.util.find_spec(module) is None:
            return Lack("Python package", distribution)
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None:
        return Lack("program", "C compiler")
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        return Lack("header", "header of Python")
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Lack("directory", str(store))
    if not (os.access(store, os.W_OK) and may_execute(store)):
        return Lack("directory", str(store))
    return None


class Builder:
    """A process that makes a copy, in a process group of its own, with all compilers that it starts."""

    def __init__(self, recipe: Recipe, store: Path, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "simulation.runs.compiling", recipe.to_json(), store, name],
            stdin=subprocess.PIPE,  # held open: the builder ends when it is closed
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([SIMULATION.source, *sys.path]), "PYTHONSAFEPATH": "1"},
            process_group=0,
        )

    def running_after(self, seconds: float) -> bool:
        """Whether it is still at work, after waiting this long for its end."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def stop(self) -> None:
        """End it and its compilers; what it had begun is removed, by itself."""
        assert self._process.stdin is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdin.close()


class CopyChoice:
    """What one sweep runs: `imports` now, and `note` for the user at the end."""

    def __init__(
        self,
        mode: Compiled,
        seeds: int,
        deadline_s: float | None = None,
        *,
        recipe: Recipe = SIMULATION,
        store: Path | None = None,
        worth_s: float = WORTH_S,
    ) -> None:
        """`seeds` are wanted; none begins after `deadline_s`, by `time.monotonic`."""
        self.imports: Path | None = None
        """The copy; None: plain."""
        self.note: str | None = None
        """Why a sweep that a copy would have made faster had none; one line."""
        self._mode = mode
        self._seeds = seeds
        self._deadline_s = deadline_s
        self._recipe = recipe
        self._store = store or cache_directory() / "compiled"
        self._worth_s = worth_s
        self._name = "" if mode is Compiled.NEVER else digest(recipe)
        self._builder: Builder | None = None
        self._lock: IO[str] | None = None
        self._decided = mode is not Compiled.AUTO
        self._done = 0
        self._began_s = self._polled_s = time.monotonic()
        if mode is not Compiled.NEVER:
            self._take()

    def __enter__(self) -> CopyChoice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_building()
        if self._lock is not None:
            self._lock.close()

    def stop_building(self) -> None:
        """End the builder, if one is at work: no more seeds follow."""
        if self._builder is not None:
            self._builder.stop()
            self._builder = None

    @property
    def must_build(self) -> bool:
        """Whether there must be a copy before the first seed, and is none."""
        return self._mode is Compiled.ALWAYS and self.imports is None

    def build(self, stopped: Callable[[], bool]) -> None:
        """Build the copy, and wait for it, or until `stopped`. Raises `CannotCompile`."""
        if (lack := lacking(self._store)) is not None:
            raise CannotCompile(f"--compiled always: expected what compiling needs, found that {lack}; {_DOCTOR}")
        self._builder = Builder(self._recipe, self._store, self._name)
        while self._builder.running_after(_POLL_S):
            if stopped():
                self._builder.stop()
                return
        self._take()
        if self.imports is None:
            raise CannotCompile(f"--compiled always: {self._failure}")

    def seen(self) -> bool:
        """Count a finished seed, start a builder if it pays; whether `imports` has changed."""
        self._done += 1
        now_s = time.monotonic()
        if now_s - self._polled_s < _POLL_S:
            return False
        self._polled_s = now_s
        if self._builder is not None and not self._builder.running_after(0):
            self._builder.stop()
            self._builder = None
            self._take()
            if self.imports is not None:
                return True
            self.note = f"not compiled: {self._failure}"
        if not self._decided and self.imports is None and now_s - self._began_s >= _ESTIMATED_AFTER_S:
            self._decided = True
            self._decide(now_s)
        return False

    def reject(self, why: str) -> None:
        """The copy is wrong: this sweep goes on without, and no other will use it."""
        reject(self._store, self._name, why)
        self.imports = None
        self.note = f"not compiled: {why}"

    def _decide(self, now_s: float) -> None:
        rest_s = (self._seeds - self._done) * (now_s - self._began_s) / max(1, self._done)
        if self._deadline_s is not None:
            rest_s = min(rest_s, self._deadline_s - now_s)
        if rest_s < self._worth_s:
            return
        if (lack := lacking(self._store)) is not None:
            self.note = f"not compiled, which would have been faster: {lack}; {_DOCTOR}"
        elif failure_of(self._store, self._name) is not None:
            self.note = f"not compiled: {self._failure}; --compiled always tries again"
        else:
            self._builder = Builder(self._recipe, self._store, self._name)

    def _take(self) -> None:
        """Use the copy if it is there and was not rejected, and keep others from removing it."""
        made = self._store / self._name / MADE
        if failure_of(self._store, self._name) is not None:
            return
        try:
            lock = made.open(encoding="utf-8")
        except OSError:
            return
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not made.exists():  # it was removed before it was locked
            lock.close()
            return
        with contextlib.suppress(OSError):
            os.utime(made)
        self._lock = lock
        self.imports = made.parent

    @property
    def _failure(self) -> str:
        if (why := failure_of(self._store, self._name)) is not None:
            return f"{why}; see {self._store / self._name}.failed"
        return "expected a compiled copy, found that its builder was killed"
