"""The store of runs: `store/runs/<UTC time>-<name>-seed-<n>/`, and `store/latest`, a link to the newest run.

Older stores, with runs in `store/<name>/<UTC time>-<seed>/`, are read as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from common.atomic_files import replacing
from common.names import closest_name

DEFAULT: Final = Path("store")
LATEST: Final = "latest"
RUNS: Final = "runs"
_SEED: Final = "-seed-"


class StoreError(Exception):
    """The store cannot be used. One line: what was expected, what was found, what to do."""


def make_run_directory(store: Path, name: str, seed: int | None, now: datetime | None = None) -> Path:
    """Make an empty directory for a run and link `latest` to it. Raises `StoreError`.

    `name` describes the run; it must be valid in a file name.
    """
    time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    directory_name = f"{time}-{name}" if seed is None else f"{time}-{name}{_SEED}{seed}"
    try:
        (store / RUNS).mkdir(parents=True, exist_ok=True)
        directory = _made(store / RUNS, directory_name)
        _point(store / LATEST, directory.relative_to(store))
    except OSError as error:
        raise StoreError(
            f"expected to make a directory in the store {store}, found: {error.strerror}; choose another with --store"
        ) from error
    return directory


def find_run(store: Path, what: str | None = None, expected: str = "a run") -> Path:
    """The directory of a run: a path, the name of one in the store, or the newest in it. Raises `StoreError`."""
    if what is None:
        what = LATEST
        if not (store / LATEST).is_dir():
            raise StoreError(f"expected a run in the store {store}, found none; name a run, or another --store")
    for place in (Path(what), store / what, store / RUNS / what):
        if place.is_dir():
            return place
    near = closest_name(what, [LATEST, *(run.name for run in runs(store))])
    advice = f"did you mean {near}?" if near else f"see {store / RUNS}"
    raise StoreError(f"expected {expected}, found no {what}, here or in the store {store}; {advice}")


def runs(store: Path, name: str | None = None) -> Sequence[Path]:
    """The directories of all runs of a store, or of those that were made with this name; oldest first."""
    pattern = "*" if name is None else f"*Z-{name}{_SEED}*"
    return sorted(path for path in (store / RUNS).glob(pattern) if path.is_dir())


def _made(parent: Path, name: str) -> Path:
    """Make a directory; the second of two runs of one name and seed in the same second gets a number."""
    for attempt in range(100):
        directory = parent / (f"{name}-{attempt + 1}" if attempt else name)
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        return directory
    raise FileExistsError(0, "a hundred runs of this seed in this second")


def _point(link: Path, target: Path) -> None:
    with replacing(link) as temporary:
        temporary.symlink_to(target)
