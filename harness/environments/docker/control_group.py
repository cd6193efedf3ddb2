"""What the kernel says of the memory of a process's control group, in either version of control groups."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
_PAGE_BYTES = 4096


class _Names(NamedTuple):
    usage: str
    limit: str
    cache: str  # key in memory.stat: what could be taken back at once


_V1 = _Names("memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file")
_V2 = _Names("memory.current", "memory.max", "inactive_file")


def memory_in_use(pid: int) -> int:
    """Bytes that the group holds and could not give back at once, in whole pages. `OSError` if it is gone."""
    group, names = _group(pid)
    statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    used = int((group / names.usage).read_text()) - int(statistics[names.cache])
    return -(-max(used, _PAGE_BYTES) // _PAGE_BYTES) * _PAGE_BYTES


def memory_limit(pid: int) -> int | None:
    """Bytes that the group may hold; None: no limit. `OSError` if it is gone."""
    group, names = _group(pid)
    told = (group / names.limit).read_text().strip()
    return None if told == "max" else int(told)


def _group(pid: int) -> tuple[Path, _Names]:
    """`/proc/PID/cgroup` has a line `number:controllers:path` a hierarchy; of version 2 there is one, `0::path`."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return _ROOTS[0] / path.lstrip("/"), _V1
    for _, controllers, path in lines:
        if not controllers:
            return _ROOTS[1] / path.lstrip("/"), _V2
    raise FileNotFoundError(f"expected a control group of process {pid} that counts memory, found none")
