"""Copies files and keeps their holes: an index of a log is allocated at full size, and is mostly one."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory as `shutil.copytree` does, links as links, with the holes of its files. Raises its errors."""
    shutil.copytree(source, target, symlinks=True, copy_function=copy_file)


def copy_file(source: str, target: str, *, follow_symlinks: bool = True) -> str:
    """Copy a file with its holes, its mode and its times; like `shutil.copy2`."""
    if not follow_symlinks and Path(source).is_symlink():
        return str(shutil.copy2(source, target, follow_symlinks=False))
    with Path(source).open("rb") as reading, Path(target).open("wb") as writing:
        position, size = 0, os.fstat(reading.fileno()).st_size
        while position < size:
            try:
                position = os.lseek(reading.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # nothing but a hole follows
                    raise
                break
            end = os.lseek(reading.fileno(), position, os.SEEK_HOLE)
            os.lseek(writing.fileno(), position, os.SEEK_SET)
            while position < end:
                position += os.sendfile(writing.fileno(), reading.fileno(), position, end - position)
        os.ftruncate(writing.fileno(), size)
    shutil.copystat(source, target)
    return target
