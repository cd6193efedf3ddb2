"""Families of mechanisms: each member offers some capabilities, and a run takes one member of each family."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import cast

from harness.environments.machine.feature_probes import ProbeResult, try_ext4, try_fuse
from harness.environments.machine.selection import PageCacheChoice, choose_page_cache
from nemesis.capabilities.cluster import Capability

Family = Mapping[str, frozenset[Capability]]

ALWAYS: frozenset[Capability] = frozenset({"process", "starvation", "administration", "spare-broker", "plain-broker"})
"""What every environment can do, by whatever mechanisms; the last two are for the cluster to have, or not."""

DISKS: Family = {
    "ext4": frozenset({"page-cache-loss", "disk-damage", "disk-full"}),
    "fuse": frozenset({"page-cache-loss", "disk-damage", "disk-full", "disk-trouble"}),
    "page-cache": frozenset({"page-cache-loss", "disk-damage"}),
}

CLOCKS: Family = {"C compiler": frozenset({"clock"})}


def choose_disk(page_cache: str, needs: frozenset[Capability]) -> str:
    """The disk to use: the one that was asked for, else the first that works and offers what the faults need.

    Where no fault needs a disk to do anything, it is the one that asks nothing of the machine. Raises
    `EnvironmentFailed` when one was asked for that this machine does not have.
    """
    if page_cache != "auto":
        return choose_page_cache(cast("PageCacheChoice", page_cache))
    trials = {"ext4": try_ext4, "fuse": try_fuse}
    wanted = needs & frozenset().union(*DISKS.values())
    if not wanted:
        return "page-cache"
    for name, capabilities in DISKS.items():
        if wanted <= capabilities and (name not in trials or trials[name]().available):
            return name
    return choose_page_cache("auto")


def ways(
    needs: frozenset[Capability], always: frozenset[Capability], families: Collection[Family]
) -> tuple[tuple[str, ...], ...]:
    """See `harness.environments.base.Offers.ways`; `always` is what no mechanism is needed for."""
    choices = []
    rest = needs - always
    for family in families:
        members = frozenset().union(*family.values())
        if wanted := needs & members:
            choices.append(tuple(name for name, offers in family.items() if wanted <= offers))
        rest -= members
    return (*choices, ()) if rest else tuple(choices)


def lacking(choices: Collection[Collection[str]], trials: Mapping[str, Callable[[], ProbeResult]]) -> str | None:
    """Why one of these choices is left without a mechanism that works; None if none is."""
    for choice in choices:
        tried = {name: trials[name]() if name in trials else None for name in choice}
        if all(trial is not None and not trial.available for trial in tried.values()):
            told = [f"{name}: {trial}" for name, trial in tried.items() if trial is not None]
            return "; ".join(told) or "no mechanism for it"
    return None
