"""Which files of the store the browser hands out, and as what; nothing outside the store, and no links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from reports.browser.pages import StoredFile

FILES_MAX: Final = 500
"""Files that a run's page lists."""
SIZE_MAX_BYTES: Final = 256 << 20

_PLAIN: Final = "text/plain; charset=utf-8"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".jsonl": _PLAIN,
    ".xml": _PLAIN,
    ".md": _PLAIN,
    ".toml": _PLAIN,
    ".txt": _PLAIN,
    ".log": _PLAIN,
    ".properties": _PLAIN,
}
_OTHERWISE: Final = "application/octet-stream"


class ServedFile(NamedTuple):
    """A file that may be handed out."""

    content: bytes
    media_type: str


def read_file(store: Path, path: str, size_max_bytes: int = SIZE_MAX_BYTES) -> ServedFile | None:
    """The file at a path relative to the store; None if there is none that may be handed out.

    Every step of the path must be a plain directory of the store and its end a plain file: each is opened relative to
    the one before without following links, so that neither `..` nor a link, nor one that is put there meanwhile, leads
    out of the store. Files that are hidden or larger than `size_max_bytes` are not handed out.
    """
    *folders, name = path.split("/")
    if not _is_name(name):
        return None
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with _opened(store, folders) as folder, os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > size_max_bytes:
                return None
            content = file.read(size_max_bytes)
    except (OSError, ValueError):
        return None
    return ServedFile(content, _TYPES.get(Path(name).suffix, _OTHERWISE))


def names_in(store: Path, path: str) -> Sequence[str]:
    """The sorted names in a directory of the store, reached as `read_file` reaches files; none if there is none."""
    try:
        with _opened(store, path.split("/")) as folder:
            return sorted(name for name in os.listdir(folder) if _is_name(name))  # noqa: PTH208 (an open directory)
    except (OSError, ValueError):
        return ()


@contextmanager
def _opened(store: Path, folders: Sequence[str]) -> Iterator[int]:
    """Open a directory below the store without following links. Raises `OSError`, and `ValueError` for other names."""
    if not all(_is_name(name) for name in folders):
        raise ValueError("expected names of directories")
    descriptor = os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in folders:
            deeper = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)


def files_of(directory: Path) -> Sequence[StoredFile]:
    """The files of a run that its page lists, without its tables."""
    found = []
    for place, folders, names in os.walk(directory):
        folders[:] = sorted(folder for folder in folders if folder not in ("history", "data"))
        for name in sorted(names):
            path = Path(place, name)
            if _is_name(name) and not path.is_symlink() and path.is_file():
                found.append(StoredFile(path.relative_to(directory).as_posix(), path.stat().st_size))
                if len(found) == FILES_MAX:
                    return found
    return found


def _is_name(name: str) -> bool:
    return bool(name) and not name.startswith(".") and "\0" not in name and "\\" not in name
