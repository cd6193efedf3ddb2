"""Prepares runs that cannot be written to for checking: a directory of links to what a run holds, for the results."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

_RESULTS = ("anomalies", "repairs", "results.json", "report.html")


def is_read_only(run: Path) -> bool:
    """Whether this user may not write results into the directory of a run."""
    written = (run, *(run / name for name in _RESULTS if (run / name).is_dir()))
    return not all(os.access(directory, os.W_OK | os.X_OK) for directory in written)


def linked(run: Path, into: Path) -> Path:
    """Make a directory in `into` that represents `run`, new each time, and return it. Raises `OSError`.

    It has links to the history and to all else that the run holds, except the results of earlier checks.
    """
    source = run.resolve()
    directory = into / f"{source.name}-{hashlib.sha256(bytes(source)).hexdigest()[:8]}"
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.name not in _RESULTS:
            (directory / entry.name).symlink_to(entry)
    return directory
