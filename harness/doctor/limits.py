"""What control groups allow this process: limits that a container's own /proc does not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED = 1 << 60
"""Version 1 has no word for it, only a number that no machine reaches."""


def memory_left() -> int | None:
    """Bytes that this process and those beside it may still take; None where nothing limits them."""
    left = [
        *_left("memory", "memory.max", "memory.current", ("active_file", "inactive_file")),
        *_left(
            "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
        ),
    ]
    return min(left, default=None)


def tasks_left() -> int | None:
    """Processes and threads that may still be started; None where nothing limits them."""
    return min(_left("pids", "pids.max", "pids.current"), default=None)


def _left(controller: str, limit_name: str, use_name: str, cached: Sequence[str] = ()) -> Iterator[int]:
    """What is left in each group; `cached` are statistics of what is given back when there is need: pages of files."""
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
            # In a container the path may be that of the machine outside, and what is ours lie at the root.
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
