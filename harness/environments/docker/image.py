"""Images of nodes: builds the broker's from this machine's Python, and pulls and examines those of other systems.

The broker's image needs no registry, and has two layers. The lower one is Python and the packages that the broker needs
(`python_tree`), and is built once; the upper one is the broker, and is built whenever the broker changes. Both are
named by a digest of their contents, so that harnesses can share them, and never use an outdated one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness.environments.base import EnvironmentFailed
from harness.environments.docker import engine, python_tree
from harness.environments.docker.engine import expecting, reason_of, troubles
from harness.environments.docker.python_tree import PACKAGES_AT, PYTHON

if TYPE_CHECKING:
    from docker import DockerClient


_DISTRIBUTIONS = ("cramjam", "crc32c", "kafka-python")
"""What the broker imports besides Python's own library."""

_SETTINGS = (
    "ENV PATH=/usr/local/bin:/usr/bin:/bin",
    f"ENV PYTHONPATH={PACKAGES_AT}",
    "ENV PYTHONUTF8=1",
    f'ENTRYPOINT ["{PYTHON}"]',
    "LABEL harrow.image=python",
)
_RECIPE = f"COPY broker {PACKAGES_AT}/broker\nLABEL harrow.image=broker\n"


def python_image(client: DockerClient) -> str:
    """The name of an image with Python and nothing of ours, built if it is missing."""
    tag = python_tree.fingerprint(_DISTRIBUTIONS)
    name = f"harrow-python:{tag}"
    if not exists(client, name):
        with tempfile.TemporaryDirectory(prefix="harrow-image-") as directory:
            path = Path(directory, "python.tar")
            with tarfile.open(path, "w") as tar:
                python_tree.write(tar, _DISTRIBUTIONS)
            with expecting("import an image of this machine's Python"):
                client.api.import_image_from_file(
                    str(path), repository="harrow-python", tag=tag, changes=list(_SETTINGS)
                )
    return name


def broker_image(client: DockerClient) -> str:
    """The name of an image of the current broker, built if it is missing."""
    base = python_image(client)
    files = list(_broker_files())
    digest = hashlib.sha256(base.encode())
    for inside, path in files:
        digest.update(f"\n{inside}\n".encode() + path.read_bytes())
    name = f"harrow-broker:{digest.hexdigest()[:12]}"
    if not exists(client, name):
        with expecting("build an image of the broker"):
            build(client, name, f"FROM {base}\n{_RECIPE}", files)
    return name


def build(client: DockerClient, name: str, recipe: str, files: Iterable[tuple[str, Path]]) -> None:
    """Build an image from a Dockerfile's text; `files` are its context: paths in the image, and on this machine."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(recipe.encode())
        tar.addfile(member, io.BytesIO(recipe.encode()))
        for inside, path in files:
            tar.add(path, arcname=inside)
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=name, rm=True)


def named_image(client: DockerClient, name: str) -> str:
    """Check for an image that the user has built or pulled; `EnvironmentFailed` when it is missing."""
    if not exists(client, name):
        raise EnvironmentFailed(
            f"expected the image {name}, found none; docker pull {name}, or build it from containers/Dockerfile"
        )
    return name


def need_image(name: str) -> None:
    """Check that the engine has an image of that name. Raises `EnvironmentFailed`."""
    client = engine.connect()
    try:
        named_image(client, name)
    finally:
        client.close()


def exists(client: DockerClient, name: str) -> bool:
    """Whether the engine has an image of that name."""
    from docker.errors import ImageNotFound

    with expecting(f"look for the image {name}"):
        try:
            client.images.get(name)
        except ImageNotFound:
            return False
    return True


def _broker_files() -> Iterator[tuple[str, Path]]:
    found = importlib.util.find_spec("broker")
    assert found is not None
    assert found.submodule_search_locations is not None
    root = Path(next(iter(found.submodule_search_locations)))
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            yield f"broker/{path.relative_to(root)}", path


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
