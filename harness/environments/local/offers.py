"""What the environment `local` can do to a cluster, by which mechanisms, and which of them a run needs."""

from __future__ import annotations

from typing import NamedTuple, cast

from harness.environments.local.choice import (
    NetworkChoice,
    PageCacheChoice,
    choose_network,
    choose_page_cache,
)
from harness.environments.machine.trials import try_clock, try_ext4, try_fuse, try_namespaces, try_shaping
from nemesis.cluster import Capability

ALWAYS: frozenset[Capability] = frozenset({"process", "starvation", "administration", "spare-broker"})

NETWORKS: dict[str, frozenset[Capability]] = {
    "namespaces": frozenset({"network", "network-shaping"}),
    "proxies": frozenset({"network"}),
}

DISKS: dict[str, frozenset[Capability]] = {
    "ext4": frozenset({"page-cache-loss", "disk-damage", "disk-full"}),
    "fuse": frozenset({"page-cache-loss", "disk-damage", "disk-full", "disk-trouble"}),
    "page-cache": frozenset({"page-cache-loss", "disk-damage"}),
}


CLOCKS: dict[str, frozenset[Capability]] = {"C compiler": frozenset({"clock"})}


class Mechanisms(NamedTuple):
    """What carries the packets of a run, and what its disks are made of."""

    network: str
    page_cache: str


def choose(network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
    """The mechanisms to use: those that were asked for, else the first that work and offer what the faults need.

    Raises `EnvironmentFailed` when one was asked for that this machine does not have. When none offers all that is
    needed the choice is as if nothing were: whoever asks compares it with `offered`.
    """
    engine = choose_network(cast("NetworkChoice", network))
    if page_cache != "auto":
        return Mechanisms(engine, choose_page_cache(cast("PageCacheChoice", page_cache)))
    trials = {"ext4": try_ext4, "fuse": try_fuse}
    wanted = needs & frozenset().union(*DISKS.values())
    for name, capabilities in DISKS.items():
        if wanted <= capabilities and (name not in trials or trials[name]().available):
            return Mechanisms(engine, name)
    return Mechanisms(engine, choose_page_cache("auto"))


def offered(mechanisms: Mechanisms) -> frozenset[Capability]:
    """What these mechanisms can do on this machine."""
    capabilities = ALWAYS | NETWORKS[mechanisms.network] | DISKS[mechanisms.page_cache]
    if "network-shaping" in capabilities and not try_shaping().available:
        capabilities -= {"network-shaping"}
    if try_clock().available:
        capabilities |= CLOCKS["C compiler"]
    return capabilities


def ways(needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
    """The mechanisms among which a fault with these needs has a choice, one tuple a choice; none if it needs none.

    A fault that no mechanism can inject has an empty choice.
    """
    choices = []
    for family in (NETWORKS, DISKS, CLOCKS):
        wanted = needs & frozenset().union(*family.values())
        if wanted:
            choices.append(tuple(name for name, offers in family.items() if wanted <= offers))
    if needs - ALWAYS - frozenset().union(*NETWORKS.values(), *DISKS.values(), *CLOCKS.values()):
        choices.append(())
    return tuple(choices)


def lacking(needs: frozenset[Capability]) -> str | None:
    """Why this machine cannot inject a fault with these needs by any mechanism; None if it can."""
    trials = {
        "namespaces": try_shaping if "network-shaping" in needs else try_namespaces,
        "ext4": try_ext4,
        "fuse": try_fuse,
        "C compiler": try_clock,
    }
    for choice in ways(needs):
        tried = {name: trials[name]() if name in trials else None for name in choice}
        if all(trial is not None and not trial.available for trial in tried.values()):
            told = [f"{name}: {trial.found}" for name, trial in tried.items() if trial is not None]
            return "; ".join(told) or "no mechanism for it"
    return None
