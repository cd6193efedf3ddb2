"""Builds the package of the broker, the agent and what they import, and installs it on a machine once for each version.

All of it is Python, with bytecode compiled here: a slow machine need not compile it, and one with another Python
version ignores it. The one exception is `crc32c`, in a separate directory for machines that lack it and can use ours.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import platform
import py_compile
import shlex
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from common.atomic_files import replacing
from common.directories import cache_directory
from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.connection.facts import Facts
from harness.environments.ssh.connection.ssh import SshConnection

_ROOT = Path(__file__).parents[4]
_OURS = (
    *(
        "broker",
        "common",
        "nemesis",
        "history/__init__.py",
        "harness/__init__.py",
        "harness/store/journal.py",
    ),
    *("harness/systems/__init__.py", "harness/systems/sidecar", "harness/systems/own/__init__.py"),
    *(f"harness/systems/own/{name}.py" for name in ("ensemble", "member", "member_probe")),
)
_ENVIRONMENTS = "harness/environments"
_NOT_THERE = ("harness/environments/docker/", "harness/environments/ssh/vms/")
"""Modules that only the harness's own machine needs."""

_PURE = ("kafka", "kazoo", "mfusepy")
"""Packages that run with every Python; of an optional one there may be none here."""

_COMPILED = "crc32c"
COMPILED_PLACE = "compiled"
"""Directory in the package for modules that only the same Python on the same processor can use."""

_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
_SUFFIXES = (".py", ".json", ".c", ".so")


_BUILDING = threading.Lock()
"""The machines of a run are attached side by side; one build serves them all."""


class Package(NamedTuple):
    """An archive and its name."""

    digest: str
    archive: bytes  # tar, compressed with gzip


@cache
def package() -> Package:
    """The archive of the current version, built if it is not cached."""
    files = dict(sorted(_files()))
    name = hashlib.sha256(sys.version.encode())
    for path, source in files.items():
        name.update(f"{path}\0".encode() + source.read_bytes())
    digest = name.hexdigest()[:16]
    kept = cache_directory() / "packages" / f"{digest}.tar.gz"
    with _BUILDING:
        if not kept.exists():
            keep(kept, _archive(files))
    return Package(digest, kept.read_bytes())


def keep(file: Path, data: bytes) -> None:
    """Write a file of the cache atomically: concurrent readers and writers see all of it or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary:
        temporary.write_bytes(data)


def _archive(files: Mapping[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive, tempfile.TemporaryDirectory() as place:
        for path, source in files.items():
            archive.add(source, path, filter=_anonymous)
            if path.endswith(".py"):
                compiled = Path(place, "compiled")
                py_compile.compile(
                    str(source),
                    str(compiled),
                    path,
                    True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )
                archive.add(compiled, importlib.util.cache_from_source(path), filter=_anonymous)
    return buffer.getvalue()


def _files() -> Iterator[tuple[str, Path]]:
    for name in (*_OURS, _ENVIRONMENTS):
        for path, source in _below(_ROOT / name, _ROOT):
            if not path.startswith(_NOT_THERE):
                yield path, source
    for module in _PURE:
        yield from _installed(module)
    for path, source in (*_installed(_COMPILED), *_metadata(_COMPILED)):
        yield f"{COMPILED_PLACE}/{path}", source


def _installed(module: str) -> Iterator[tuple[str, Path]]:
    found = importlib.util.find_spec(module)
    if found is not None and found.origin is not None:
        origin = Path(found.origin)
        if found.submodule_search_locations:
            yield from _below(origin.parent, origin.parents[1])
        else:
            yield origin.name, origin


def _metadata(distribution: str) -> Iterator[tuple[str, Path]]:
    """The file that tells a package, when it is imported, which version it is of."""
    for file in importlib.metadata.files(distribution) or ():
        if file.name == "METADATA":
            yield str(file), Path(str(file.locate()))


def _below(place: Path, root: Path) -> Iterator[tuple[str, Path]]:
    for path in [place] if place.is_file() else place.rglob("*"):
        if path.suffix in _SUFFIXES and path.is_file():
            yield str(path.relative_to(root)), path


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


_SCRIPT = """
set -e
place=$1
[ -e "$place" ] && { cat >/dev/null; exit 0; }
umask 022
mkdir -p "${place%/*}"
fresh=$(mktemp -d "$place.XXXXXX")
chmod 755 "$fresh"
tar -xzf - -C "$fresh"
mv -T "$fresh" "$place" 2>/dev/null || { rm -rf "$fresh"; [ -e "$place" ]; }
"""


def install(connection: SshConnection, facts: Facts) -> str:
    """Install this version of the package if it is missing; returns its `PYTHONPATH`.

    Raises `EnvironmentFailed`.
    """
    host = connection.host
    ours = (facts.python, facts.machine) == (sys.version_info[:2], platform.machine())
    if "crc32c" not in facts.has and not ours:
        raise EnvironmentFailed(
            f"expected the Python package crc32c on host {host.name}, found none; apt-get install python3-crc32c there"
        )
    place = f"{host.directory}/packages/{package().digest}"
    path = place if "crc32c" in facts.has else f"{place}:{place}/{COMPILED_PLACE}"
    if package().digest in facts.packages:
        return path
    answer = connection.run(f"sh -c {shlex.quote(_SCRIPT)} sh {shlex.quote(place)}", package().archive, as_root=True)
    if answer.status != 0:
        raise EnvironmentFailed(f"expected to install Harrow in {place} on host {host.name}, found: {answer.complaint}")
    return path
