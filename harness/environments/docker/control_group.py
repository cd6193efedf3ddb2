"""Reads the memory use and limit of a process's control group, of either version."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
_PAGE_BYTES = 4096


class _Names(NamedTuple):
    usage: str
    limit: str
    cache: str  # key in memory.stat: what can be reclaimed at once


_V1 = _Names("memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file")
_V2 = _Names("memory.current", "memory.max", "inactive_file")


def memory_in_use(pid: int) -> int:
    """Bytes that the group uses and that cannot be reclaimed at once, in whole pages. `OSError` if it is gone."""
    group, names = _group(pid)
    statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    used = int((group / names.usage).read_text()) - int(statistics[names.cache])
    return -(-max(used, _PAGE_BYTES) // _PAGE_BYTES) * _PAGE_BYTES


def memory_limit(pid: int) -> int | None:
    """The group's limit in bytes; None: no limit. `OSError` if it is gone."""
    group, names = _group(pid)
    limit = (group / names.limit).read_text().strip()
    return None if limit == "max" else int(limit)


def _group(pid: int) -> tuple[Path, _Names]:
    """`/proc/PID/cgroup` has a line `number:controllers:path` for each hierarchy; version 2 has one, `0::path`."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return _ROOTS[0] / path.lstrip("/"), _V1
    for _, controllers, path in lines:
        if not controllers:
            return _ROOTS[1] / path.lstrip("/"), _V2
    raise FileNotFoundError(f"expected a control group of process {pid} that counts memory, found none")
