"""Selects the network and page-cache mechanisms: those that the user asked for, else the first that work."""

from __future__ import annotations

from typing import Literal

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.feature_probes import ProbeResult, try_ext4, try_fuse, try_namespaces

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
