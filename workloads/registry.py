"""Finds workloads by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from common.names import unknown
from workloads.admin import AdminWorkload
from workloads.base import Context, Workload
from workloads.groups import GroupsWorkload
from workloads.log import LogWorkload
from workloads.objects import queue_workload, register_workload

WORKLOADS: Final[Mapping[str, Callable[[Context], Workload]]] = {
    "log": LogWorkload,
    "register": register_workload,
    "queue": queue_workload,
    "groups": GroupsWorkload,
    "admin": AdminWorkload,
}


class UnknownWorkloadError(Exception):
    """The workload is unknown. One line that lists the known ones."""


def workload_named(name: str) -> Callable[[Context], Workload]:
    """Return the factory of a workload. Raises `UnknownWorkloadError`."""
    if name not in WORKLOADS:
        raise UnknownWorkloadError(unknown(name, WORKLOADS, "a workload"))
    return WORKLOADS[name]
