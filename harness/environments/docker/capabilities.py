"""Capabilities and mechanisms of the environment `docker`: those of `local`, if a Docker engine can run nodes."""

from __future__ import annotations

import secrets
from functools import cache

from harness.environments.base import EnvironmentFailed, Mechanisms
from harness.environments.docker import engine, image
from harness.environments.docker.engine import hold_namespace
from harness.environments.machine.feature_probes import ProbeResult, attempt, try_clock, try_ext4, try_fuse, try_shaping
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.machine.mechanisms import (
    ALWAYS,
    CLOCKS,
    DISKS,
    MechanismGroup,
    mechanisms_of_groups,
    select_disk,
    why_none_works,
)
from nemesis.capabilities.cluster import Capability


@cache
def try_docker() -> ProbeResult:
    """Send packets to a container's namespace while the link is whole, cut, and restored.

    The image is built if it is missing, which takes some seconds the first time.
    """
    return attempt("docker", _probe)


def _probe() -> str:
    engine.need_package()
    engine.need_root()
    client = engine.connect()
    token = secrets.token_hex(8)
    try:
        namespace = hold_namespace(client, image.python_image(client), token, 1, {}, briefly=True)
        supervisor = Supervisor(
            SupervisorSettings(network=True, mounts=False, endpoints=(0, 1), namespaces=[(1, namespace)]), {}
        )
        try:
            seen = []
            for links in ([], [(0, 1)], []):
                supervisor.ask("block", links=links)
                seen.append(supervisor.ask("probe", links=[(0, 1)], timeout_s=0.1)[0])
        finally:
            supervisor.close()
    finally:
        engine.remove_containers(client, token)
        version = client.version()["Version"]
        client.close()
    if seen != [True, False, True]:
        raise EnvironmentFailed(f"expected packets to pass but while the link is cut, found {seen}")
    return f"engine {version} houses nodes"


HERE: frozenset[Capability] = ALWAYS | {"upgrade"}
"""What nodes that are containers of this machine can suffer, whatever the mechanisms."""

NETWORKS: MechanismGroup = {"namespaces": frozenset({"network", "network-shaping"})}


def sure_of(needs: frozenset[Capability]) -> bool:  # noqa: ARG001
    """See `harness.environments.base.Capabilities.sure_of`: without an engine it has none."""
    return False


def choose(network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
    """See `harness.environments.base.Capabilities.choose`."""
    if not (engine := try_docker()).available:
        raise EnvironmentFailed(f"expected a Docker engine for the environment docker, found: {engine}", engine.cause)
    if network == "proxies":
        raise EnvironmentFailed("expected containers to have a real network, found --network proxies; leave it out")
    return Mechanisms("namespaces", select_disk(page_cache, needs))


def offered(mechanisms: Mechanisms) -> frozenset[Capability]:
    """The capabilities of these mechanisms on this machine."""
    capabilities = HERE | NETWORKS[mechanisms.network] | DISKS[mechanisms.page_cache]
    if not try_shaping().available:
        capabilities -= {"network-shaping"}
    if try_clock().available:
        capabilities |= CLOCKS["C compiler"]
    return capabilities


def mechanisms_for(needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
    """See `harness.environments.base.Capabilities.mechanisms_for`."""
    return mechanisms_of_groups(needs, HERE, (NETWORKS, DISKS, CLOCKS))


def lacking(needs: frozenset[Capability]) -> str | None:
    """See `harness.environments.base.Capabilities.lacking`."""
    if not (engine := try_docker()).available:
        return str(engine)
    probes = {
        "namespaces": try_shaping if "network-shaping" in needs else try_docker,
        "ext4": try_ext4,
        "fuse": try_fuse,
        "C compiler": try_clock,
    }
    return why_none_works(mechanisms_for(needs), probes)
