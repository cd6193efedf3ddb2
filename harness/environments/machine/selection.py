"""One mechanism of a family: the one that was asked for, or the first that this machine offers."""

from __future__ import annotations

from typing import Literal

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.feature_probes import ProbeResult, try_ext4, try_fuse, try_namespaces

NetworkChoice = Literal["auto", "namespaces", "proxies"]
PageCacheChoice = Literal["auto", "ext4", "fuse", "page-cache"]


def choose_network(wanted: NetworkChoice) -> Literal["namespaces", "proxies"]:
    """The engine to use; `EnvironmentFailed` when this one was asked for and the machine does not offer it."""
    if wanted == "proxies":
        return "proxies"
    trial = try_namespaces()
    if trial.available:
        return "namespaces"
    if wanted == "namespaces":
        raise _unavailable("network", "namespaces", trial)
    return "proxies"


def choose_page_cache(wanted: PageCacheChoice) -> Literal["ext4", "fuse", "page-cache"]:
    """The mechanism to use; `EnvironmentFailed` when this one was asked for and the machine does not offer it."""
    if wanted in ("auto", "ext4"):
        trial = try_ext4()
        if trial.available:
            return "ext4"
        if wanted == "ext4":
            raise _unavailable("page cache", "ext4", trial)
    if wanted in ("auto", "fuse"):
        trial = try_fuse()
        if trial.available:
            return "fuse"
        if wanted == "fuse":
            raise _unavailable("page cache", "fuse", trial)
    return "page-cache"


def _unavailable(what: str, name: Literal["namespaces", "ext4", "fuse"], trial: ProbeResult) -> EnvironmentFailed:
    return EnvironmentFailed(f"expected this machine to offer {what} by {name}, found: {trial}")
