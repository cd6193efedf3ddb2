"""Pulls the image of a system under test, reads its settings, and runs single commands in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from harness.environments.base import EnvironmentFailed
from harness.environments.docker.engine import expecting, reason_of, troubles
from harness.environments.docker.image import exists

if TYPE_CHECKING:
    from docker import DockerClient

ROOT = "0:0"
"""The user that runs such an image: the owner of the nodes' directories."""


class ImageSettings(NamedTuple):
    """The settings of an image."""

    environment: Mapping[str, str]
    command: tuple[str, ...]  # its default command


def pulled(client: DockerClient, name: str) -> ImageSettings:
    """Return an image's settings; a missing image is pulled from its registry. Raises `EnvironmentFailed`."""
    if not exists(client, name):
        try:
            client.images.pull(name)
        except troubles() as error:
            raise EnvironmentFailed(
                f"expected the image {name} here or in its registry, found: {reason_of(error)}; "
                f"build it, or docker pull {name}"
            ) from error
    with expecting(f"describe the image {name}"):
        config = client.images.get(name).attrs["Config"]
    environment = dict(line.split("=", 1) for line in config.get("Env") or ())
    return ImageSettings(environment, (*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())))


def run_once(client: DockerClient, name: str, command: Sequence[str], timeout_s: float) -> tuple[int, str, str]:
    """Run a program of an image as root, without any network; returns exit status, output and errors.

    Raises one of `engine.troubles`, also when the timeout passes.
    """
    container = client.containers.create(name, entrypoint=list(command), command=[], network_mode="none", user=ROOT)
    try:
        container.start()
        status = int(container.wait(timeout=timeout_s)["StatusCode"])
        output, errors = (container.logs(stdout=out, stderr=not out) for out in (True, False))
    finally:
        container.remove(force=True, v=True)
    return status, output.decode(errors="replace"), errors.decode(errors="replace")
