"""Selects the fleet of a specification, and finds the capabilities of its machines."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.capabilities import CAPABILITIES_OF_VMS, SshCapabilities, try_ssh
from harness.environments.ssh.connection.hosts import SshHost, hosts_for_nodes
from harness.environments.ssh.fleet import Fleet
from harness.spec.spec import Spec


def capabilities_of(spec: Spec) -> SshCapabilities:
    """Examine all machines, without changes. Raises `SpecError`, or `EnvironmentFailed` for an unfit one."""
    _need_paramiko()
    if spec.vms:
        from harness.environments.ssh.vms.probe import need_vms

        need_vms(spec.nodes)
        return CAPABILITIES_OF_VMS
    return _capabilities_of_hosts(tuple(hosts_of(spec)))


def fleet_of(spec: Spec) -> Fleet:
    """The fleet of a run; nothing is started. Raises `SpecError`."""
    _need_paramiko()
    if spec.vms:
        from harness.environments.ssh.vms.fleet import VmFleet

        return VmFleet()
    from harness.environments.ssh.fleet import GivenFleet

    return GivenFleet(hosts_of(spec))


def hosts_of(spec: Spec) -> Sequence[SshHost]:
    """The hosts of an inventory, one for each node in order. Raises `SpecError`."""
    return hosts_for_nodes(Path(spec.inventory), spec.nodes)


@cache
def _capabilities_of_hosts(hosts: Sequence[SshHost]) -> SshCapabilities:
    from harness.environments.ssh.connection.facts import Facts, common, examine
    from harness.environments.ssh.connection.ssh import SshConnection

    def look(host: SshHost) -> Facts:
        connection = SshConnection(host)
        try:
            return examine(connection)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(hosts)) as pool:
        return SshCapabilities(common(pool.map(look, hosts)), ours=False)


def _need_paramiko() -> None:
    if not (result := try_ssh()).available:
        raise EnvironmentFailed(f"expected what the environment ssh needs, found that {result}", result.cause)
