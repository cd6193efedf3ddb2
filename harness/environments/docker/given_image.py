"""An image of somebody's: had from its registry if it is not here, asked for its settings, and tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from harness.environments.base import EnvironmentFailed
from harness.environments.docker.engine import expecting, told, troubles
from harness.environments.docker.image import exists

if TYPE_CHECKING:
    from docker import DockerClient

ROOT = "0:0"
"""The user as whom such an image is run: whose the nodes' directories are."""


class ImageSettings(NamedTuple):
    """What an image says of itself."""

    environment: Mapping[str, str]
    command: tuple[str, ...]  # that it runs if it is not told otherwise


def pulled(client: DockerClient, name: str) -> ImageSettings:
    """See that an image is there; a registry is asked once for one that is not. Raises `EnvironmentFailed`."""
    if not exists(client, name):
        try:
            client.images.pull(name)
        except troubles() as error:
            raise EnvironmentFailed(
                f"expected the image {name} here or in its registry, found: {told(error)}; "
                f"build it, or docker pull {name}"
            ) from error
    with expecting(f"tell of the image {name}"):
        said = client.images.get(name).attrs["Config"]
    environment = dict(line.split("=", 1) for line in said.get("Env") or ())
    return ImageSettings(environment, (*(said.get("Entrypoint") or ()), *(said.get("Cmd") or ())))


def run_once(client: DockerClient, name: str, command: Sequence[str], timeout_s: float) -> tuple[int, str, str]:
    """Run a program of an image as root, without any network; its exit status, output and errors.

    Raises one of `engine.troubles`, also when it does not end within the time.
    """
    container = client.containers.create(name, entrypoint=list(command), command=[], network_mode="none", user=ROOT)
    try:
        container.start()
        status = int(container.wait(timeout=timeout_s)["StatusCode"])
        output, errors = (container.logs(stdout=out, stderr=not out) for out in (True, False))
    finally:
        container.remove(force=True, v=True)
    return status, output.decode(errors="replace"), errors.decode(errors="replace")
