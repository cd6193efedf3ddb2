"""Starts containers that only hold a network namespace, so that it outlives the nodes that share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Unfit
from harness.environments.docker.engine import LABEL, expecting
from harness.environments.docker.image import PYTHON
from harness.environments.machine.kernel import process_identity
from harness.environments.machine.kernel.process_identity import RUN_MARK
from nemesis.capabilities.cluster import Endpoint

if TYPE_CHECKING:
    from docker import DockerClient

_HOLD = "import signal; signal.pause()"
_HOLD_BRIEFLY = "import time; time.sleep(60)"


def container_name(token: str, what: str, endpoint: Endpoint) -> str:
    """A container name that shows its purpose."""
    return f"harrow-{token}-{what}-{endpoint}"


def hold_namespace(
    client: DockerClient,
    base: str,
    token: str,
    endpoint: Endpoint,
    holders: dict[Endpoint, str],
    *,
    briefly: bool = False,
) -> str:
    """Start a container that holds a network namespace; returns the namespace's path. Adds its id to `holders`.

    With `briefly` the container ends after a minute, even if this process is killed.

    Raises `EnvironmentFailed`, also when the containers' processes are not visible on this machine.
    """
    with expecting("start a container"):
        container = client.containers.run(
            base,
            entrypoint=[PYTHON, "-S", "-E", "-c", _HOLD_BRIEFLY if briefly else _HOLD],
            name=container_name(token, "network", endpoint),
            labels={LABEL: token},
            environment={RUN_MARK: token},
            network_mode="none",
            log_config={"Type": "none"},
            detach=True,
            auto_remove=briefly,
        )
        container.reload()
    holders[endpoint] = str(container.id)
    pid = int(container.attrs["State"]["Pid"])
    # The pid may be that of another process, if the engine runs on a remote machine.
    if pid not in process_identity.of_run(token):
        raise EnvironmentFailed(
            "expected the engine's containers to run on this machine, found no process of theirs",
            Unfit("Docker engine"),
        )
    return f"/proc/{pid}/ns/net"
