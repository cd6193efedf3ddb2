"""Talks to the Docker engine: connects, formats errors, holds network namespaces, removes the containers of a run.

A namespace is held by a container that does nothing else, so that it outlives the nodes that share it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Missing, NotRoot, Refused, Unfit
from harness.environments.docker.python_tree import PYTHON
from harness.environments.machine.kernel import process_identity
from harness.environments.machine.kernel.process_identity import RUN_MARK
from nemesis.capabilities.cluster import Endpoint

if TYPE_CHECKING:
    from docker import DockerClient


LABEL = "harrow.run"
"""Label of a run's containers; its value is the run's token."""

_TIMEOUT_S = 60
_GOING = (404, 409)
"""The engine's statuses for a container that is gone, or that another client is removing."""


def need_package() -> None:
    """Check that the library is installed. Raises `EnvironmentFailed`."""
    if importlib.util.find_spec("docker") is None:
        raise EnvironmentFailed("no Python package docker", Missing("Python package", "docker"))


def connect() -> DockerClient:
    """Connect as Docker's own client does (`DOCKER_HOST`); `EnvironmentFailed` when no engine answers."""
    need_package()
    import docker

    try:
        client = docker.from_env(timeout=_TIMEOUT_S)
        client.ping()
    except docker.errors.DockerException as error:
        raise EnvironmentFailed(
            f"no Docker engine answers ({reason_of(error)})", Refused(_number(error), "Docker engine")
        ) from error
    return client


def _number(error: BaseException | None) -> int:
    """The `errno` below an error of the library; 0 if there is none."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno
        error = error.__cause__ or error.__context__
    return 0


def reason_of(error: Exception) -> str:
    """The engine's error message, in one line."""
    words = getattr(error, "explanation", None) or str(error)
    return " ".join(str(words).split())


def troubles() -> tuple[type[Exception], ...]:
    """The exceptions of the library when the engine refuses, or does not answer."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    return DockerException, RequestException


@contextlib.contextmanager
def expecting(what: str) -> Iterator[None]:
    """Convert the engine's error to `EnvironmentFailed`: expected `what`, found its message."""
    try:
        yield
    except troubles() as error:
        raise EnvironmentFailed(f"expected Docker to {what}, found: {reason_of(error)}") from error


def containers_of(client: DockerClient, token: str) -> list[Any]:
    """All containers of a run, including stopped ones."""
    found: list[Any] = client.containers.list(all=True, ignore_removed=True, filters={"label": f"{LABEL}={token}"})
    return found


def remove_containers(client: DockerClient, token: str) -> list[str]:
    """Kill and remove a run's remaining containers; returns their names. Safe when there are none."""
    from docker.errors import APIError

    names = []
    with expecting("remove the containers of a run"):
        for container in containers_of(client, token):
            try:
                container.remove(force=True, v=True)
            except APIError as error:
                if error.status_code not in _GOING:
                    raise
            names.append(str(container.name))
    return sorted(names)


def need_root() -> None:
    """Check for root, which creating the containers' namespaces and disks needs."""
    if os.geteuid() != 0:
        raise EnvironmentFailed("this user is not root", NotRoot())


_BECOMES_S = 10.0
"""How long the first process of a container may take to be seen here."""
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
    # The pid may be that of another process, if the engine runs on a remote machine. Here it has the mark once it has
    # become the container's own process, which on a busy machine is after the engine has answered.
    if not process_identity.wait_until(lambda: pid in process_identity.of_run(token), _BECOMES_S):
        raise EnvironmentFailed(
            "expected the engine's containers to run on this machine, found no process of theirs",
            Unfit("Docker engine"),
        )
    return f"/proc/{pid}/ns/net"
