"""Runs a command as the root of a user namespace of its own, whose users are those of the machine.

    python3 in_user_namespace.py COMMAND…

As the machine's root, who alone may map them all. Limits that are set in there hold for nobody else.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_USERS = 65536


def main() -> None:
    """Fork a child that makes the namespace, map its users for it, and have it become the command."""
    made, mapped = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), "unshare")
        os.write(made[1], b"x")
        os.read(mapped[0], 1)
        os.execvp(sys.argv[1], sys.argv[1:])
    os.read(made[0], 1)
    for kind in ("uid", "gid"):
        Path(f"/proc/{child}/{kind}_map").write_text(f"0 0 {_USERS}")
    os.write(mapped[1], b"x")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
