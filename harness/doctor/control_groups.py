"""Reads the limits of control groups on this process, which /proc in a container does not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED = 1 << 60
"""Version 1 of control groups has no word for "unlimited", only a number that no machine reaches."""


def memory_available() -> int | None:
    """Bytes that this process and the others in its groups can still allocate; None if there is no limit."""
    left = [
        *_available("memory", "memory.max", "memory.current", ("active_file", "inactive_file")),
        *_available(
            "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
        ),
    ]
    return min(left, default=None)


def tasks_available() -> int | None:
    """Number of processes and threads that can still be started; None if there is no limit."""
    return min(_available("pids", "pids.max", "pids.current"), default=None)


def _available(controller: str, limit_name: str, use_name: str, cached: Sequence[str] = ()) -> Iterator[int]:
    """What is available in each group; `cached` are statistics of memory that can be reclaimed: pages of files."""
    for group in _groups(controller):
        limit, use = _number(group / limit_name), _number(group / use_name)
        if limit is not None and use is not None and limit < _UNLIMITED:
            yield limit - use + sum(_statistic(group / "memory.stat", name) for name in cached)


def _groups(controller: str) -> Iterator[Path]:
    """The directories of this process's groups, of either version, from the innermost outwards."""
    try:
        lines = _MEMBERSHIP.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or controller in controllers.split(","):
            root = _ROOT / controller if controllers else _ROOT
            own = root / path.lstrip("/")
            # In a container the path may be that on the host, and our own group may be at the root.
            yield from dict.fromkeys((own, *(one for one in own.parents if one.is_relative_to(root)), root))


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _statistic(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
