"""Chooses the directory for control sockets: the system takes paths of Unix sockets up to 107 bytes only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PATH_BYTES_MAX = 107
"""`sun_path` of `struct sockaddr_un` without its final zero (unix(7))."""

OWN_BYTES = 60
"""Bytes that a run adds to the path: a directory with its token, a node's number, a name."""

_ALTERNATIVES = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - a directory of our own is made there


def place_for_sockets() -> Path:
    """Return the temporary directory of this process, or if its path is too long one that is short and writable."""
    usual = Path(tempfile.gettempdir())
    for directory in (usual, *_ALTERNATIVES):
        if len(os.fsencode(directory)) + OWN_BYTES <= PATH_BYTES_MAX and os.access(directory, os.W_OK | os.X_OK):
            return directory
    return usual
