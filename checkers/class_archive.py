"""Finds the archive of Spark's classes from which Java starts faster, and has one made for later checks.

Java can write the classes that it has loaded to a file and map that file when it starts (application class-data
sharing). The file is of use to the same Java with the same jars only; Java itself compares, and loads classes as usual
if they differ. So there is one in the user's cache for each Java and each release of PySpark, made after a check by a
process of its own (`checkers.class_archiving`) at the lowest priority. Whether a Java can write one is found by trying:
an attempt that failed leaves a note, and is not repeated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pyspark

from common.directories import cache_directory

SUFFIX = ".jsa"
FAILED_SUFFIX = ".failed"
KEPT = 2
"""Archives that stay, those used last: one has 160 MB."""


def archive_of(java_home: Path) -> Path:
    """Return where the archive of this Java and this PySpark is, or would be."""
    java = java_home / "bin" / "java"
    built = java.resolve().stat().st_mtime_ns if java.exists() else 0
    key = f"{java.resolve()} {built} {pyspark.__version__} {Path(pyspark.__file__).resolve()}"
    return cache_directory() / "classes" / f"{sha256(key.encode()).hexdigest()[:16]}{SUFFIX}"


def options_for(java_home: Path) -> list[str]:
    """Return the options with which Java uses its archive: none if there is none."""
    archive = archive_of(java_home)
    if not archive.is_file():
        return []
    with suppress(OSError):
        os.utime(archive)  # it is in use
    return [f"-XX:SharedArchiveFile={archive}"]


def make_later(java_home: Path) -> subprocess.Popen[bytes] | None:
    """Start the process that makes the archive, unless there is one or it cannot be made. It outlives this process.

    Not where the environment says `CI`, as CI systems do: their machines are thrown away, with what is in their caches.
    """
    archive = archive_of(java_home)
    if os.environ.get("CI"):
        return None
    if archive.exists() or archive.with_suffix(FAILED_SUFFIX).exists():
        return None
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"}
    with suppress(OSError):
        return subprocess.Popen(
            [sys.executable, "-m", "checkers.class_archiving"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
    return None


def remove_old(directory: Path) -> None:
    """Remove all archives but those used last. Java keeps one that it has mapped until it ends."""
    archives = sorted(directory.glob(f"*{SUFFIX}"), key=lambda archive: archive.stat().st_mtime_ns, reverse=True)
    for archive in archives[KEPT:]:
        archive.unlink(missing_ok=True)
