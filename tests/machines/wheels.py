"""Fetches the wheels that a warm package cache would hold: what pip keeps of an installation, for each Python."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import tomllib
from pathlib import Path

from tests.machines.machine import in_machine
from tests.machines.roots import cache, locked
from tests.machines.rows import Row


def wheels_of(row: Row, checkout: Path) -> Path:
    """The wheels of what this checkout requires, for the row's Python; fetched if they are not there."""
    requirements = _requirements((checkout / "pyproject.toml").read_text())
    key = hashlib.sha256(requirements.encode()).hexdigest()[:12]
    wheels = cache() / f"wheels-{row.release}-{row.python}-{key}"
    fetching = Row("fetching", "", row.release, row.python)
    with locked(wheels.name):
        if not wheels.exists():
            _fetch(fetching, requirements, wheels)
    return wheels


def _fetch(row: Row, requirements: str, wheels: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=".wheels-", dir=wheels.parent))
    (unfinished / "list").write_text(requirements)
    pip = "/venv/bin/pip"
    fetch = f"{row.python} -m venv /venv && {pip} install -q wheel && {pip} wheel -q -w /wheels -r /wheels/list"
    earlier = {path: f"/earlier/{path.name}" for path in wheels.parent.glob("wheels-*") if path.is_dir()}
    links = {"PIP_FIND_LINKS": " ".join(earlier.values())}  # what is for any Python is built once
    done = in_machine(row, {unfinished: "/wheels", **earlier}, ["sh", "-c", fetch], links)
    if done.returncode != 0:
        shutil.rmtree(unfinished)
        raise RuntimeError(f"expected wheels for {row.python} of {row.release}, found: {done.stderr[-2000:]}")
    unfinished.chmod(0o755)
    unfinished.rename(wheels)


def _requirements(pyproject: str) -> str:
    """What pip installs for Harrow and to build it, a requirement a line."""
    said = tomllib.loads(pyproject)
    return "\n".join(sorted({*said["project"]["dependencies"], *said["build-system"]["requires"], "wheel"})) + "\n"
