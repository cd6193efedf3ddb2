"""Which files of the store the browser hands out, and as what; nothing outside the store, and no links."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
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


def read_file(store: Path, path: str) -> ServedFile | None:
    """The file at a path relative to the store; None if there is none that may be handed out.

    Every step of the path must be a plain directory of the store and its end a plain file: each is opened relative to
    the one before without following links, so that neither `..` nor a link, nor one that is put there meanwhile, leads
    out of the store. Files that are hidden or larger than `SIZE_MAX_BYTES` are not handed out.
    """
    names = path.split("/")
    if not all(_is_name(name) for name in names):
        return None
    try:
        descriptor = os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names[:-1]:
                deeper = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = deeper
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(names[-1], flags, dir_fd=descriptor), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_size > SIZE_MAX_BYTES:
                    return None
                content = file.read(SIZE_MAX_BYTES)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return None
    return ServedFile(content, _TYPES.get(Path(names[-1]).suffix, _OTHERWISE))


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
