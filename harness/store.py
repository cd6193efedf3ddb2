"""Where runs are kept: `store/<name>/<UTC time>-<seed>/`, and `store/latest`, which points to the newest."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

DEFAULT = Path("store")
LATEST = "latest"


class StoreError(Exception):
    """The store can't be used. One line: what was expected, what was found, what to do."""


def make_run_directory(store: Path, name: str, seed: int, now: datetime | None = None) -> Path:
    """Make an empty directory for a run and let `latest` point to it. Raises `StoreError`."""
    time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    try:
        (store / name).mkdir(parents=True, exist_ok=True)
        directory = _made(store / name, f"{time}-{seed}")
        _point(store / LATEST, directory.relative_to(store))
    except OSError as error:
        raise StoreError(
            f"expected to make a directory in the store {store}, found: {error.strerror}; choose another with --store"
        ) from error
    return directory


def _made(parent: Path, name: str) -> Path:
    """Two runs of one seed may start within a second: the later one gets a number."""
    for attempt in range(100):
        directory = parent / (f"{name}-{attempt + 1}" if attempt else name)
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        return directory
    raise FileExistsError(0, "a hundred runs of this seed in this second")


def _point(link: Path, target: Path) -> None:
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
