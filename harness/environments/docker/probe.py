"""Probes whether a Docker engine can run nodes, by sending a packet to a container."""

from __future__ import annotations

import secrets
from functools import cache

from harness.environments.base import EnvironmentFailed
from harness.environments.docker import engine, image
from harness.environments.docker.holder import hold_namespace
from harness.environments.machine.feature_probes import ProbeResult, attempt
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import Settings


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
        supervisor = Supervisor(Settings(network=True, mounts=False, endpoints=(0, 1), namespaces=[(1, namespace)]), {})
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
