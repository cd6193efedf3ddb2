"""Writes into the store how far a run, a suite or a sweep has come, and reads that back for `harrow serve`.

`store/progress/<pid>-<number>.json`, replaced atomically, removed at the end. A process that was killed leaves its file
behind: whoever reads it asks the kernel for the process, so that it is not taken for a live one, and the next process
that writes into the same store removes it.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeGuard

from common.atomic_files import replacing
from common.wording import printable
from harness.environments.machine.kernel import process_identity

DIRECTORY: Final = "progress"
KINDS: Final = ("run", "suite", "sweep")
WRITTEN_EVERY_S: Final = 1.0
"""News within a phase is not written more often."""
SILENT_AFTER_S: Final = 60.0
"""A process that cannot be asked for, as it runs on another machine, counts as live this long after its last news."""
FORGOTTEN_AFTER_S: Final = 86_400.0
"""What it has left is no longer shown then."""
SIZE_MAX_BYTES: Final = 16 << 10
_TEXT_MAX: Final = 400
_SECONDS_MAX: Final = 1e9
_MS_MAX: Final = 1e14

Kind = Literal["run", "suite", "sweep"]
Life = Literal["live", "silent", "dead", "forgotten"]


@dataclass(frozen=True)
class Progress:
    """How far one process has come."""

    kind: Kind
    title: str
    directory: str
    """Where its results go, relative to the store; empty if they have no directory of their own."""
    started_unix_ms: int
    told_unix_ms: int
    """When this was written."""
    pid: int
    start_time: int
    """When the process started, as the kernel counts."""
    machine: str
    """In which the pid means this process."""
    phase: str = ""
    detail: str = ""
    share: float | None = None
    """Of the phase; None if that is not known."""
    left_s: float | None = None
    """Seconds until the phase ends, as estimated."""


class ProgressFile:
    """The file of one run, suite or sweep. Safe to use from several threads.

    What it tells is a service to whoever looks: an error of the file system ends no run.
    """

    _numbers = itertools.count(1)

    def __init__(self, store: Path, kind: Kind, title: str, directory: Path | None = None) -> None:
        self._directory = store.absolute() / DIRECTORY
        pid = os.getpid()
        self._path = self._directory / f"{pid}-{next(self._numbers)}.json"
        self._lock = threading.Lock()
        self._written_s = -math.inf
        self._closed = False
        self._made_store = not store.exists()
        now_ms = _now_ms()
        self._progress = Progress(
            kind=kind,
            title=title,
            directory="" if directory is None else os.path.relpath(directory.absolute(), store.absolute()),
            started_unix_ms=now_ms,
            told_unix_ms=now_ms,
            pid=pid,
            start_time=process_identity.start_time(pid) or 0,
            machine=this_machine(),
        )

    def __enter__(self) -> ProgressFile:
        with suppress(OSError):
            remove_dead(self._directory)
        self.tell()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock, suppress(OSError):
            self._closed = True
            self._path.unlink(missing_ok=True)
            self._directory.rmdir()  # which fails where others still write
            if self._made_store:
                self._directory.parent.rmdir()

    def tell(
        self,
        phase: str | None = None,
        detail: str = "",
        share: float | None = None,
        left_s: float | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Write what is known now: at once if the phase is another or if so asked, otherwise once a second at most."""
        with self._lock:
            same = phase is None or phase == self._progress.phase
            now_s = time.monotonic()
            if self._closed or (same and not at_once and now_s - self._written_s < WRITTEN_EVERY_S):
                return
            self._written_s = now_s
            self._progress = replace(
                self._progress,
                phase=self._progress.phase if phase is None else phase,
                detail=detail,
                share=share,
                left_s=left_s,
                told_unix_ms=_now_ms(),
            )
            with suppress(OSError):
                self._directory.mkdir(parents=True, exist_ok=True)
                with replacing(self._path) as temporary:
                    temporary.write_text(json.dumps(asdict(self._progress)), encoding="utf-8")


def parse(content: bytes) -> Progress | None:
    """What a progress file says; None if it is damaged. Texts are cut, and hold nothing that a terminal obeys."""
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or len(content) > SIZE_MAX_BYTES or not _is_sound(raw):
        return None
    texts = {name: printable(raw[name][:_TEXT_MAX]) for name in ("title", "directory", "phase", "detail", "machine")}
    return Progress(**{**{field.name: raw[field.name] for field in fields(Progress)}, **texts})


def _is_sound(raw: Mapping[str, Any]) -> bool:
    return (
        all(isinstance(raw.get(name), str) for name in ("title", "directory", "phase", "detail", "machine"))
        and raw.get("kind") in KINDS
        and all(_is_whole(raw.get(name), _MS_MAX) for name in ("started_unix_ms", "told_unix_ms", "pid", "start_time"))
        and "share" in raw
        and (raw["share"] is None or _is_number(raw["share"], 1))
        and "left_s" in raw
        and (raw["left_s"] is None or _is_number(raw["left_s"], _SECONDS_MAX))
    )


def life(progress: Progress, now_unix_ms: int) -> Life:
    """Whether the process that wrote this lives; of another machine's it is known only by its latest news."""
    if progress.machine and progress.machine == this_machine():
        return "live" if process_identity.exists(progress.pid, progress.start_time) else "dead"
    silent_s = (now_unix_ms - progress.told_unix_ms) / 1000
    if abs(silent_s) <= SILENT_AFTER_S:
        return "live"
    return "silent" if 0 < silent_s <= FORGOTTEN_AFTER_S else "forgotten"


def remove_dead(directory: Path) -> None:
    """Remove the files of processes that have ended, or were forgotten. Raises `OSError`."""
    for path in directory.glob("*.json"):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > SIZE_MAX_BYTES:
            continue
        progress = parse(path.read_bytes())
        if progress is not None and life(progress, _now_ms()) in ("dead", "forgotten"):
            path.unlink(missing_ok=True)


def this_machine() -> str:
    """Names this boot of this machine and the process ids that count here, which a container has of its own."""
    parts = []
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 (it is no path)
    return " ".join(parts)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _is_whole(value: object, most: float) -> bool:
    return type(value) is int and 0 <= value <= most


def _is_number(value: object, most: float) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
