"""Selects the mechanisms of a run on this machine: those that the user asked for, else the first that work.

Mechanisms are in groups. Each has some capabilities, and a run uses one mechanism of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal, cast

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.feature_probes import ProbeResult, try_ext4, try_fuse, try_namespaces
from nemesis.capabilities.cluster import Capability

NetworkSelection = Literal["auto", "namespaces", "proxies"]
PageCacheSelection = Literal["auto", "ext4", "fuse", "page-cache"]


def select_network(wanted: NetworkSelection) -> Literal["namespaces", "proxies"]:
    """Select the network engine; `EnvironmentFailed` when the machine lacks the one that the user asked for."""
    if wanted == "proxies":
        return "proxies"
    result = try_namespaces()
    if result.available:
        return "namespaces"
    if wanted == "namespaces":
        raise _unavailable("network", "namespaces", result)
    return "proxies"


def select_page_cache(wanted: PageCacheSelection) -> Literal["ext4", "fuse", "page-cache"]:
    """Select the page-cache mechanism; `EnvironmentFailed` when the machine lacks the one that the user asked for."""
    if wanted in ("auto", "ext4"):
        result = try_ext4()
        if result.available:
            return "ext4"
        if wanted == "ext4":
            raise _unavailable("page cache", "ext4", result)
    if wanted in ("auto", "fuse"):
        result = try_fuse()
        if result.available:
            return "fuse"
        if wanted == "fuse":
            raise _unavailable("page cache", "fuse", result)
    return "page-cache"


def _unavailable(what: str, name: Literal["namespaces", "ext4", "fuse"], result: ProbeResult) -> EnvironmentFailed:
    return EnvironmentFailed(f"expected this machine to offer {what} by {name}, found: {result}")


MechanismGroup = Mapping[str, frozenset[Capability]]

ALWAYS: frozenset[Capability] = frozenset(
    {"process", "starvation", "topics", "reassignment", "administration", "spare-broker", "plain-broker"}
)
"""The capabilities of every environment, whatever its mechanisms; the last two depend on the cluster's shape."""

DISKS: MechanismGroup = {
    "ext4": frozenset({"page-cache-loss", "disk-damage", "disk-full"}),
    "fuse": frozenset({"page-cache-loss", "disk-damage", "disk-full", "disk-trouble"}),
    "page-cache": frozenset({"page-cache-loss", "disk-damage"}),
}

CLOCKS: MechanismGroup = {"C compiler": frozenset({"clock"})}


def select_disk(page_cache: str, needs: frozenset[Capability]) -> str:
    """Select the disk: the one that the user asked for, else the first that works and has the needed capabilities.

    If no fault needs a disk, it is the one that needs nothing of the machine. Raises `EnvironmentFailed` when this
    machine lacks the one that the user asked for.
    """
    if page_cache != "auto":
        return select_page_cache(cast("PageCacheSelection", page_cache))
    probes = {"ext4": try_ext4, "fuse": try_fuse}
    wanted = needs & frozenset().union(*DISKS.values())
    if not wanted:
        return "page-cache"
    for name, capabilities in DISKS.items():
        if wanted <= capabilities and (name not in probes or probes[name]().available):
            return name
    return select_page_cache("auto")


def mechanisms_of_groups(
    needs: frozenset[Capability], always: frozenset[Capability], groups: Collection[MechanismGroup]
) -> tuple[tuple[str, ...], ...]:
    """See `harness.environments.base.Capabilities.mechanisms_for`; `always` are those that need no mechanism."""
    alternatives = []
    rest = needs - always
    for group in groups:
        of_group = frozenset().union(*group.values())
        if wanted := needs & of_group:
            alternatives.append(tuple(name for name, capabilities in group.items() if wanted <= capabilities))
        rest -= of_group
    return (*alternatives, ()) if rest else tuple(alternatives)


def why_none_works(groups: Collection[Collection[str]], probes: Mapping[str, Callable[[], ProbeResult]]) -> str | None:
    """Why no mechanism of one of these tuples works; None if each has one that works."""
    for names in groups:
        results = {name: probes[name]() if name in probes else None for name in names}
        if all(result is not None and not result.available for result in results.values()):
            reasons = [f"{name}: {result}" for name, result in results.items() if result is not None]
            return "; ".join(reasons) or "no mechanism for it"
    return None
