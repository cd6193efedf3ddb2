"""Runs a command for which the kernel refuses a system call, as a filter or an old kernel does.

python3 refusing.py NAME ERROR COMMAND…
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBERS = {
    "x86_64": {"unshare": 272, "pidfd_open": 434},
    "aarch64": {"unshare": 97, "pidfd_open": 434},
}


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def main() -> None:
    """Install the filter, then become the command."""
    number = _NUMBERS[platform.machine()][sys.argv[1]]
    program = b"".join(
        [
            _instruction(_LOAD_WORD, 0),
            _instruction(_JUMP_IF_EQUAL, number, 0, 1),
            _instruction(_RETURN, _ERRNO | getattr(errno, sys.argv[2])),
            _instruction(_RETURN, _ALLOW),
        ]
    )
    kept = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")
    os.execvp(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
