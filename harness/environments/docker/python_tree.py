"""What a Python program needs of this machine, as a tar: the interpreter, its library, some packages, shared objects.

Everything has the same path as here, so that the interpreter finds its library as it does here. Nothing else is in the
tar: no shell, no package manager. An image that is imported from it needs no registry.
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

PACKAGES_AT = "/opt/harrow"
"""Where packages are in the image."""

_LAYOUT = 1  # to be raised when another tar comes of the same versions
_NOT_NEEDED = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"}
)
_NOBODY_ASKS_FOR = ("_tkinter", "_test", "_ctypes_test", "xxlimited")
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_DIRECTORIES = ("dev", "proc", "sys", "tmp", "etc", "run", "root")


def interpreter() -> Path:
    """The interpreter that runs us, whatever virtual environment it is in."""
    return Path(os.path.realpath(sys.executable))


def fingerprint(distributions: Iterable[str]) -> str:
    """What the tar depends on, short enough for a tag."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in sorted(distributions)]
    told = "\n".join([str(_LAYOUT), sys.version, str(interpreter()), *versions])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def write(tar: tarfile.TarFile, distributions: Iterable[str]) -> None:
    """Put it all into a tar. `distributions` are named as for pip; `EnvironmentFailed` if one is not installed."""
    for directory in _DIRECTORIES:
        _add_directory(tar, directory, 0o1777 if directory == "tmp" else 0o755)
    library = Path(os.__file__).parent
    modules = [file for file in (library / "lib-dynload").glob("*.so") if not file.name.startswith(_NOBODY_ASKS_FOR)]
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
    """What the C library loads only when a thread ends."""
    ctypes.CDLL("libgcc_s.so.1")
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/libgcc_s.so.1"):
            yield line[line.index("/") :]


def _files(distribution: str) -> Iterator[tuple[str, Path]]:
    """The files of a distribution, each with its name below the packages."""
    try:
        files = importlib.metadata.files(distribution) or ()
    except importlib.metadata.PackageNotFoundError:
        raise EnvironmentFailed(
            f"expected the Python package {distribution}, found none: pip install {distribution}"
        ) from None
    for file in files:
        if ".." not in file.parts and (path := Path(str(file.locate()))).exists():  # programs lie elsewhere
            yield str(file), path


def _libraries(files: Sequence[Path]) -> Iterator[str]:
    """The shared objects that these are linked with, by the dynamic linker's own account."""
    # A file that is linked with nothing makes ldd fail, and a library that is missing here is missing for us as well.
    told = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return (os.path.normpath(match[1]) for match in _LIBRARY.finditer(told))


def _needed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(member.name).name
    left_out = (
        name in _NOT_NEEDED or name.startswith(("config-", *_NOBODY_ASKS_FOR)) or name.endswith((".a", ".opt-1.pyc"))
    )
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
    """The contents of a file under a name that may be a link here."""
    with open(path, "rb") as file:  # noqa: PTH123 - the name as the linker has it
        member = tar.gettarinfo(arcname=path, fileobj=file)
        tar.addfile(member, file)
