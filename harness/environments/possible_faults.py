"""Decides which faults are impossible: on this machine, in the run's environment, with its cluster and its system.

A kind of fault names the capabilities that it needs (`FaultKind.needs`). It is impossible if one is missing from

- the environment on this machine: `CAPABILITIES` has the module of each environment that says what it has, and why not;
  `offered` there probes each mechanism before it counts on it, and `lacking` gives the reason and the remedy;
- the shape of the cluster: `_of_the_cluster`;
- the system under test: its `cannot`.

`refuse_impossible` refuses kinds that a user named, with the reason. `expand_families` leaves out the impossible kinds
of a family.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import get_args

from common.names import SpecError
from harness.environments.base import Capabilities, EnvironmentFailed, System
from harness.environments.docker import capabilities as docker
from harness.environments.local import capabilities as local
from harness.environments.ssh.capabilities import CAPABILITIES_OF_VMS
from harness.spec.spec import EXISTING, OWN_SYSTEM, Spec
from harness.systems.hooks import Hooks, missing_for
from nemesis.capabilities.cluster import Capability
from nemesis.faults import families
from nemesis.faults.base import FaultKind
from nemesis.recipes import RECIPES, kinds_in, needs_of, parts

CAPABILITIES: Mapping[str, Capabilities] = {"local": local, "docker": docker, "ssh": CAPABILITIES_OF_VMS}
"""What each environment can do on this machine; for `ssh`, with VMs of the run (an inventory's hosts are examined)."""


def refuse_impossible(spec: Spec, kinds: Iterable[FaultKind], system: System) -> None:
    """Check that the environment can inject these faults into the system, by the mechanisms that the user asked for.

    It starts nothing but short probes of mechanisms. Raises `SpecError`, and `EnvironmentFailed` for a missing image.
    """
    for name in spec.faults:
        if name in RECIPES and spec.brokers == 1:
            raise SpecError(
                f"faults: {name} needs followers, found 1 broker; raise --brokers, or leave it out of --faults"
            )
    if spec.environment == EXISTING:
        _refuse_without_hooks(kinds, system)
        return
    capabilities = _capabilities_of(spec)
    wanted = {kind.name: kind.needs for kind in kinds}
    for name, needs in wanted.items():
        if hopeless := frozenset(need for need in needs if () in capabilities.mechanisms_for(frozenset({need}))):
            raise _not_possible(spec, name, hopeless, "any mechanism")
        lack = needs - _of_the_cluster(spec)
        if "upgrade" in lack:
            raise SpecError(f"faults: {name} needs a version to upgrade to, found none; add --upgrade-to")
        if "plain-broker" in lack:
            raise SpecError(
                f"faults: {name} needs a broker that is no controller, too, found {spec.brokers} brokers of which "
                f"{spec.controllers} are; raise --brokers, or leave it out of --faults"
            )
        if lack:
            raise SpecError(
                f"faults: {name} needs more brokers than replicas, found {spec.brokers} brokers for "
                f"{spec.replication_factor} replicas; raise --brokers, or leave it out of --faults"
            )
    needed: frozenset[Capability] = frozenset().union(*wanted.values())
    asked_for = (spec.network, spec.page_cache)
    if spec.system == OWN_SYSTEM and asked_for == ("auto", "auto") and capabilities.sure_of(needed):
        return
    try:
        mechanisms = capabilities.choose(spec.network, spec.page_cache, needed)
    except EnvironmentFailed as error:
        raise SpecError(str(error)) from error
    if spec.image and spec.system == OWN_SYSTEM:
        from harness.environments.docker.image import need_image

        need_image(spec.image)
    offered = capabilities.offered(mechanisms)
    cannot = system.cannot(*mechanisms)
    for name, needs in wanted.items():
        if lack := needs - offered:
            if (reason := capabilities.lacking(lack)) is not None:
                raise SpecError(
                    f"faults: {name} needs {', '.join(sorted(lack))}, which this machine lacks: {reason}; "
                    "or leave it out of --faults"
                )
            raise _not_possible(spec, name, lack, " and ".join(mechanisms))
        if needs & cannot:
            raise SpecError(
                f"faults: {name} needs {', '.join(sorted(needs & cannot))}, which {system.name} does not go along with "
                f"by {' and '.join(mechanisms)}; leave it out of --faults, or see docs/guide/systems.md"
            )


def expand_families(spec: Spec, system: System) -> Spec:
    """Expand families of faults, and `all`, in the specification to the kinds of fault that can be injected here.

    Raises `SpecError` for a family without any such kind.
    """
    if not set(spec.faults) & families.OPEN.keys():
        return spec
    wanted = [kind for word in spec.faults for kind in families.OPEN.get(word, parts(word))]
    try:
        return replace(spec, faults=families.settle(spec.faults, _possible(spec, system, wanted)))
    except families.FaultsError as error:
        raise SpecError(f"{error}; leave it out of --faults, or see `harrow doctor --faults`") from error


def _possible(spec: Spec, system: System, wanted: Iterable[str]) -> Collection[str]:
    """The kinds among these that one run in this environment can inject on this machine. Raises `SpecError`."""
    if spec.environment == EXISTING:
        by_hooks = _hooks_of(system).faults
        needed = {name: {kind.name for kind in kinds_in((name,))} for name in wanted}
        return {
            name for name, kinds in needed.items() if kinds <= by_hooks and (name not in RECIPES or spec.brokers > 1)
        }
    capabilities = _capabilities_of(spec)
    needs = {name: needs_of(name) for name in wanted if name not in RECIPES or spec.brokers > 1}
    try:
        mechanisms = capabilities.choose(spec.network, spec.page_cache, frozenset().union(*needs.values()))
        possible = capabilities.offered(mechanisms) - system.cannot(*mechanisms)
    except EnvironmentFailed as error:
        raise SpecError(str(error)) from error
    possible &= _of_the_cluster(spec) - {"upgrade"}  # a run has one, for which `with_upgrade` finds the time
    return {name for name, need in needs.items() if need <= possible}


def _hooks_of(system: System) -> Hooks:
    from harness.systems.existing import ExistingCluster

    assert isinstance(system, ExistingCluster)
    return system.definition.hooks


def _refuse_without_hooks(kinds: Iterable[FaultKind], system: System) -> None:
    hooks = _hooks_of(system)
    for kind in kinds:
        if kind.name not in hooks.faults:
            raise SpecError(
                f"faults: {kind.name} cannot be injected into a cluster that Harrow did not start: "
                f"{missing_for(kind.name)}, found {', '.join(hooks.by_name) or 'none'} in {system.name}; "
                "leave it out of --faults, or see docs/guide/your-own-cluster.md"
            )


def _capabilities_of(spec: Spec) -> Capabilities:
    """The capabilities of a specification's environment. Raises `EnvironmentFailed` if its machines cannot be nodes."""
    if spec.environment != "ssh":
        return CAPABILITIES[spec.environment]
    from harness.environments.ssh import selection

    return selection.capabilities_of(spec)


def _of_the_cluster(spec: Spec) -> frozenset[Capability]:
    """The capabilities that a cluster of this shape allows."""
    everything: frozenset[Capability] = frozenset(get_args(Capability))
    if spec.brokers <= spec.replication_factor:
        everything -= {"spare-broker"}
    if spec.combined and spec.controllers >= spec.brokers:
        everything -= {"plain-broker"}
    if not spec.upgrade_to:
        everything -= {"upgrade"}
    return everything


def _not_possible(spec: Spec, fault: str, lacking: frozenset[Capability], how: str) -> SpecError:
    return SpecError(
        f"faults: {fault} needs {', '.join(sorted(lacking))}, which the environment {spec.environment} does not "
        f"offer by {how}; leave it out of --faults, or see `harrow doctor --faults`"
    )
