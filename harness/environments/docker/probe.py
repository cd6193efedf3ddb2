"""Whether there is a Docker engine that can house nodes, found out by having it hold the end of a link."""

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
    """Send a packet to a container's namespace over a link that is whole, cut, and mended.

    The image is made if it is not there, which takes some seconds the first time.
    """
    return attempt("docker", _trial)


def _trial() -> str:
    engine.need_package()
    engine.need_root()
    client = engine.connect()
    token = secrets.token_hex(8)
    try:
        namespace = hold_namespace(client, image.python_image(client), token, 1, {}, briefly=True)
        keeper = Supervisor(Settings(network=True, mounts=False, endpoints=(0, 1), namespaces=[(1, namespace)]), {})
        try:
            seen = []
            for links in ([], [(0, 1)], []):
                keeper.ask("block", links=links)
                seen.append(keeper.ask("probe", links=[(0, 1)], timeout_s=0.1)[0])
        finally:
            keeper.close()
    finally:
        engine.remove_containers(client, token)
        version = client.version()["Version"]
        client.close()
    if seen != [True, False, True]:
        raise EnvironmentFailed(f"expected packets to pass but while the link is cut, found {seen}")
    return f"engine {version} houses nodes"
