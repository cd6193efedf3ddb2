"""Makes Debian roots for reduced machines: they have only what the README asks for.

Each is made once and kept in the user's cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.machines.rows import NEWEST, Row

WANTED = ("make", "git", "python3", "python3-venv", "ca-certificates")
"""What "Linux, Python, make and git" means in packages."""

_FURTHER_PYTHONS = {NEWEST: ("python3.15", "python3.15-venv")}
_MIRROR = "http://deb.debian.org/debian"


def cache() -> Path:
    """The directory in which roots and wheels are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "harrow-machines"


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """The cache's directory, in which nobody else makes what has this name meanwhile."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield cache()


def root_of(row: Row) -> Path:
    """The Debian root of a row's machine; it is made if it is not there, which takes a minute or more."""
    packages = (*WANTED, *_FURTHER_PYTHONS.get(row.release, ()), *row.packages)
    key = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    root = cache() / f"{row.release}-{key}"
    if not root.exists():
        with locked(root.name):
            if not root.exists():  # another has made it meanwhile
                _make(root, row.release, packages)
    return root


def _make(root: Path, release: str, packages: Sequence[str]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".{release}-", dir=root.parent))
    command = [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        '--aptopt=Acquire::Check-Valid-Until "false"',  # a mirror may be a snapshot
        f"--include={','.join(packages)}",
        release,
        str(unfinished / "root"),
        os.environ.get("HARROW_DEBIAN_MIRROR", _MIRROR),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (unfinished / "root").rename(root)
    unfinished.rmdir()
