"""Compiles the core and the simulator with mypyc, into a copy in the user's cache that long sweeps run.

The copy has the packages as they are, and extension modules beside the hot ones; Python prefers those. The rules stay
plain, for a flaw is a class made at run time. Before a copy gets its name, some seeds are run plain and compiled, and
their hashes, which cover every event and every draw, have to be equal. The name is a digest of all that matters: the
sources, the versions of Python and of mypy, the platform.

A builder is a process (`python -m simulation.runs.compiling`): it works in a directory of its own, which is renamed at
the end, so a copy is there in full or not at all. Only one builds at a time. It ends when its standard input does, so
that it never outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

KEPT = 3
"""Copies that stay in the cache: the last used. One that a sweep uses stays in any case."""

MADE = "made.json"
"""The file in a copy that says how it was made; a sweep that uses the copy holds a shared lock on it."""

_BEGUN = ".building-"
_LINES_KEPT = 30

_HASHES = """
import sys
from simulation.runs.sweep import simulate
from simulation.runs.compiling import is_compiled

print("compiled" if is_compiled() else "plain")
for seed in range(1, 13):
    print(seed, simulate(seed, {}, True).digest)
"""

# Compiled with -O1 the same sweep takes as long as with -O3, and the build two thirds of the time.
_BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup

modules = sys.argv[4:]
del sys.argv[4:]
flags = ["--config-file=", "--ignore-missing-imports", *modules]
setup(name="compiled", packages=[], ext_modules=mypycify(flags, opt_level="1", debug_level="0", multi_file=True))
"""


@dataclass(frozen=True)
class Recipe:
    """What is copied, what of it is compiled, and how both are compared."""

    source: str
    """The directory of the packages."""
    packages: tuple[str, ...]
    modules: tuple[str, ...]
    """Patterns of the modules to compile, as of `Path.glob`."""
    plain: tuple[str, ...]
    """Directories whose modules stay plain."""
    program: str
    """Prints `plain` or `compiled`, and then lines that have to be equal."""

    @staticmethod
    def from_json(text: str) -> Recipe:
        """The inverse of `to_json`."""
        values: dict[str, Any] = {
            name: tuple(one) if isinstance(one, list) else one for name, one in json.loads(text).items()
        }
        return Recipe(**values)

    def to_json(self) -> str:
        """As one argument of a command."""
        return json.dumps(asdict(self))


SIMULATION = Recipe(
    source=str(Path(__file__).resolve().parents[2]),
    packages=("broker", "simulation", "nemesis", "history", "checkers", "workloads", "common"),
    modules=(
        "broker/core/**/*.py",
        *(f"simulation/engine/{name}.py" for name in ("choices", "cluster", "disk", "event_queue", "machine")),
        *("simulation/engine/node_views.py", "simulation/engine/transport.py", "simulation/faults/nemesis.py"),
        "simulation/invariants/**/*.py",
        *("simulation/scenario/phases.py", "simulation/scenario/scenario.py", "simulation/workload/administration.py"),
        "simulation/workload/clients.py",
    ),
    plain=("broker/core/rules",),
    program=_HASHES,
)
"""The modules of the core and those of `simulation` that run for every event."""


class CannotCompile(Exception):
    """No compiled copy can be made. One line: expected, found, what to do."""


@functools.cache
def is_compiled() -> bool:
    """Whether this process runs the compiled core."""
    found = importlib.util.find_spec("broker.core.records")
    return found is not None and found.origin is not None and not found.origin.endswith(".py")


def digest(recipe: Recipe, source: Path | None = None) -> str:
    """The name of the copy of these sources, for this Python and this mypy."""
    root = source or Path(recipe.source)
    try:
        mypy = importlib.metadata.version("mypy")
    except importlib.metadata.PackageNotFoundError:
        mypy = "none"
    text = asdict(recipe) | {"source": None, "python": sys.version, "platform": sysconfig.get_platform(), "mypy": mypy}
    whole = hashlib.sha256(json.dumps(text, sort_keys=True).encode())
    for path in _files(root, recipe.packages):
        content = path.read_bytes()
        whole.update(f"\n{path.relative_to(root)} {len(content)}\n".encode())
        whole.update(content)
    return whole.hexdigest()[:24]


def _files(root: Path, packages: Sequence[str]) -> list[Path]:
    found = [path for package in packages for path in (root / package).rglob("*") if path.suffix not in (".so", ".pyc")]
    return sorted(path for path in found if path.is_file())


def failure_of(store: Path, name: str) -> str | None:
    """Why an earlier build of this copy failed, or the copy was rejected; one line, None if neither."""
    with contextlib.suppress(OSError):
        return (store / f"{name}.failed").read_text(encoding="utf-8").splitlines()[0]
    return None


def reject(store: Path, name: str, why: str, details: str = "") -> None:
    """Record that this copy cannot be made or must not be used."""
    with tempfile.NamedTemporaryFile("w", dir=store, prefix=_BEGUN, delete=False, encoding="utf-8") as file:
        file.write(f"{' '.join(why.split())}\n{details}")
    Path(file.name).rename(store / f"{name}.failed")


def build(recipe: Recipe, store: Path, name: str) -> None:
    """Make the copy `store/name` unless it is there; removes old ones. Raises `CannotCompile`."""
    with _alone(store):
        if (store / name).is_dir():
            if failure_of(store, name) is None:
                return
            shutil.rmtree(store / name)
        _tidy(store)
        (store / f"{name}.failed").unlink(missing_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=_BEGUN, dir=store))
        try:
            began_s = time.monotonic()
            lines = _compiled(recipe, folder, name)
            made = {"seconds": round(time.monotonic() - began_s, 1), "compared": lines, "python": sys.version}
            (folder / MADE).write_text(json.dumps(made, indent=2), encoding="utf-8")
            folder.rename(store / name)
        except CannotCompile as failed:
            log = folder / "build.log"
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
            reject(store, name, str(failed), "\n".join(lines[-_LINES_KEPT:]))
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _alone(store: Path) -> Iterator[None]:
    """Wait until no other process builds here."""
    with (store / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _tidy(store: Path) -> None:
    """Remove what killed builders left, and copies and failures that were not used lately."""
    for left in store.glob(f"{_BEGUN}*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
    failures = sorted(store.glob("*.failed"), key=lambda path: path.stat().st_mtime)
    for path in failures[:-KEPT]:
        path.unlink(missing_ok=True)
    copies = sorted(store.glob(f"*/{MADE}"), key=lambda path: path.stat().st_mtime)
    for path in copies[: 1 - KEPT]:
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # a sweep uses it
            shutil.rmtree(path.parent, ignore_errors=True)


def _compiled(recipe: Recipe, folder: Path, name: str) -> list[str]:
    """Copy, compile, compare; the lines that were equal."""
    for package in recipe.packages:
        shutil.copytree(
            Path(recipe.source, package), folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
    if digest(recipe, folder) != name:
        raise CannotCompile("expected sources that stay as they are while they are copied, found others: try again")
    plain = _lines(recipe, folder, "plain")
    found = sorted({path for pattern in recipe.modules for path in folder.glob(pattern)})
    modules = [path for path in found if not any(folder / other in path.parents for other in recipe.plain)]
    log = folder / "build.log"
    arguments = ["build_ext", "--inplace", f"-j{len(os.sched_getaffinity(0))}"]
    command = [sys.executable, "-c", _BUILD, *arguments, *(str(path.relative_to(folder)) for path in modules)]
    environment = {key: value for key, value in os.environ.items() if key != "MYPYPATH"}
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL, check=False
        )
    if done.returncode != 0:
        raise CannotCompile(f"expected mypyc and the C compiler to succeed, found status {done.returncode}")
    compiled = _lines(recipe, folder, "compiled")
    for ours, theirs in zip(plain, compiled, strict=True):
        if ours != theirs:
            raise CannotCompile(f"expected equal hashes plain and compiled, found {ours!r} and {theirs!r}")
    for made in ("build", ".mypy_cache"):
        shutil.rmtree(folder / made, ignore_errors=True)
    return plain


def _lines(recipe: Recipe, folder: Path, expected: str) -> list[str]:
    """What the recipe's program prints in this folder."""
    ran = subprocess.run(
        [sys.executable, "-c", recipe.program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = ran.stdout.splitlines()
    if ran.returncode != 0 or lines[:1] != [expected]:
        told = (ran.stderr.splitlines() or lines or ["nothing"])[-1]
        raise CannotCompile(f"expected the {expected} copy to run, found status {ran.returncode}: {told}")
    return lines[1:]


def main() -> None:
    """A builder: its arguments are the recipe as JSON, the store, and the name."""
    recipe_text, store, name = sys.argv[1:]
    signal.signal(signal.SIGTERM, _ended)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it decides
    threading.Thread(target=_watch, daemon=True).start()
    try:
        build(Recipe.from_json(recipe_text), Path(store), name)
    except CannotCompile as failed:
        sys.exit(str(failed))
    except OSError as error:
        reject(Path(store), name, f"expected room for the compiled copy in {store}, found: {error}")
        sys.exit(str(error))


def _ended(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # while it tidies up
    sys.exit(128 + number)


def _watch() -> None:
    """End this process and the compilers when the process that started it is gone."""
    while os.read(0, 1):
        pass
    os.killpg(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
