"""Packs this machine's Python into a tar: the interpreter, its library, some packages, shared objects.

Everything keeps its path, so that the interpreter finds its library. The tar contains nothing else: no shell, no
package manager. An image that is imported from it needs no registry.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.environments.base import EnvironmentFailed

PYTHON = "python3"
"""The interpreter in every image of ours, found through PATH."""

PACKAGES_AT = "/opt/harrow"
"""The directory of packages in the image."""

_LAYOUT = 1  # increment when the same versions produce a different tar
_NOT_NEEDED = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"}
)
_UNUSED = ("_tkinter", "_test", "_ctypes_test", "xxlimited")
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_DIRECTORIES = ("dev", "proc", "sys", "tmp", "etc", "run", "root")


def interpreter() -> Path:
    """The interpreter that runs us, outside any virtual environment."""
    return Path(os.path.realpath(sys.executable))


def fingerprint(distributions: Iterable[str]) -> str:
    """A digest of everything that the tar depends on, short enough for a tag."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in sorted(distributions)]
    inputs = "\n".join([str(_LAYOUT), sys.version, str(interpreter()), *versions])
    return hashlib.sha256(inputs.encode()).hexdigest()[:12]


def write(tar: tarfile.TarFile, distributions: Iterable[str]) -> None:
    """Write the tar. `distributions` are named as for pip; `EnvironmentFailed` if one is not installed."""
    for directory in _DIRECTORIES:
        _add_directory(tar, directory, 0o1777 if directory == "tmp" else 0o755)
    library = Path(os.__file__).parent
    modules = [file for file in (library / "lib-dynload").glob("*.so") if not file.name.startswith(_UNUSED)]
    tar.add(interpreter(), arcname=str(interpreter()))
    _add_link(tar, "usr/local/bin/python3", str(interpreter()))
    tar.add(library, arcname=str(library), filter=_needed)
    for name in distributions:
        for inside, path in _files(name):
            tar.add(path, arcname=f"{PACKAGES_AT}/{inside}")
            if path.suffix == ".so":
                modules.append(path)
    for shared in sorted(
        {*_libraries([interpreter(), *modules]), *_loaded_late()} - {f"/{name}" for name in tar.getnames()}
    ):
        _add_file(tar, shared)


def _loaded_late() -> Iterator[str]:
    """The library that the C library loads only when a thread ends."""
    ctypes.CDLL("libgcc_s.so.1")
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/libgcc_s.so.1"):
            yield line[line.index("/") :]


def _files(distribution: str) -> Iterator[tuple[str, Path]]:
    """The files of a distribution, each with its path below the packages directory."""
    try:
        files = importlib.metadata.files(distribution) or ()
    except importlib.metadata.PackageNotFoundError:
        raise EnvironmentFailed(
            f"expected the Python package {distribution}, found none: pip install {distribution}"
        ) from None
    for file in files:
        if ".." not in file.parts and (path := Path(str(file.locate()))).exists():  # programs are outside
            yield str(file), path


def _libraries(files: Sequence[Path]) -> Iterator[str]:
    """The shared objects that these files are linked with, according to the dynamic linker."""
    # A statically linked file makes ldd fail, and a library that is missing here is missing for us as well.
    output = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return (os.path.normpath(match[1]) for match in _LIBRARY.finditer(output))


def _needed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(member.name).name
    left_out = name in _NOT_NEEDED or name.startswith(("config-", *_UNUSED)) or name.endswith((".a", ".opt-1.pyc"))
    return None if left_out else member


def _add_directory(tar: tarfile.TarFile, name: str, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    tar.addfile(member)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    tar.addfile(member)


def _add_file(tar: tarfile.TarFile, path: str) -> None:
    """Add a file's contents under a name that may be a symbolic link here."""
    with open(path, "rb") as file:  # noqa: PTH123 - the name as the linker has it
        member = tar.gettarinfo(arcname=path, fileobj=file)
        tar.addfile(member, file)
