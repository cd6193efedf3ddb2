"""Compile the broker's core and the simulator with mypyc, for long sweeps: the same seeds, in half the time.

    python tools/compile_simulation.py build/compiled          about three minutes; needs a C compiler
    PYTHONPATH=build/compiled harrow sim --seeds 1:20000

The rules stay as they are, for a flaw is a class made at run time. The compiled copy stands beside the source and is
used only when asked for: what one debugs stays Python. After it was built some seeds are run both ways, and their
hashes, which cover every event and every draw, have to be equal.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
PACKAGES = (
    "broker",
    "simulation",
    "harness",
    "nemesis",
    "history",
    "checkers",
    "workloads",
    "reports",
    "incidents",
    "common",
)

SIMULATOR = (
    *("engine/choices", "engine/cluster", "engine/disk", "engine/machine", "engine/node_views"),
    *("engine/transport", "faults/nemesis", "invariants/*", "scenario/scenario"),
    *("workload/administration", "workload/clients"),
)
"""The modules of `simulation` that run for every event, as patterns; the observer is among them."""

CHECKED_SEEDS = 12

_BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup

modules = sys.argv[4:]
del sys.argv[4:]
extensions = mypycify(["--ignore-missing-imports", *modules], opt_level="3", debug_level="0", multi_file=True)
setup(name="compiled", packages=[], ext_modules=extensions)
"""

_HASHES = """
import sys
from simulation.runs.sweep import simulate
import broker.core.records

print(broker.core.records.__file__.endswith(".py"))
for seed in range(1, {seeds} + 1):
    print(seed, simulate(seed, {{}}, True).digest)
"""


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the compiled copy goes; what is there is replaced")
    folder = parser.parse_args().folder.resolve()
    copy(folder)
    build(folder)
    check(folder)


def copy(folder: Path) -> None:
    """The packages as they are, and nothing that an earlier build left."""
    if folder.exists() and not (folder / "broker" / "core").is_dir():
        sys.exit(f"expected {folder} to be new or an earlier build, found something else: name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    for package in PACKAGES:
        shutil.copytree(SOURCE / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))


def build(folder: Path) -> None:
    """Make extension modules beside the copied sources; Python prefers them."""
    core = folder / "broker" / "core"
    modules = [
        *(module for module in sorted(core.rglob("*.py")) if core / "rules" not in module.parents),
        *(module for name in SIMULATOR for module in sorted((folder / "simulation").glob(f"{name}.py"))),
    ]
    log = folder / "build.log"
    names = [str(module.relative_to(folder)) for module in modules]
    print(f"compiling {len(names)} modules", flush=True)
    with log.open("w") as out:
        jobs = str(os.cpu_count() or 1)
        command = [sys.executable, "-c", _BUILD, "build_ext", "--inplace", f"-j{jobs}", *names]
        done = subprocess.run(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"compiling ended with status {done.returncode}: see {log}")


def check(folder: Path) -> None:
    """Run some seeds both ways and compare."""
    compiled, plain = hashes(folder), hashes(SOURCE)
    if (compiled[0], plain[0]) != ("False", "True"):
        sys.exit(f"expected extension modules in {folder}, and none in {SOURCE}: see {folder / 'build.log'}")
    if compiled[1:] != plain[1:]:
        different = next(ours for ours, theirs in zip(compiled[1:], plain[1:], strict=True) if ours != theirs)
        sys.exit(f"compiled and plain simulation differ, first in seed {different.split()[0]}: do not use {folder}")
    print(f"{CHECKED_SEEDS} seeds have the same hashes both ways; use it with PYTHONPATH={folder}")


def hashes(folder: Path) -> list[str]:
    """Whether the core is plain Python, then a line a seed."""
    program = _HASHES.format(seeds=CHECKED_SEEDS)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return ran.stdout.splitlines()


if __name__ == "__main__":
    main()
