"""Runs a command for which the kernel has no IPv6: a system-call filter refuses its sockets, as `ipv6.disable=1` does.

    python3 without_ipv6.py COMMAND…

Needs root, or else the command could not gain privileges (fusermount3 must).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
import sys

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER_AT, _FIRST_ARGUMENT_AT = 0, 16  # in `struct seccomp_data`
_SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def main() -> None:
    """Install the filter, then become the command."""
    program = b"".join(
        [
            _instruction(_LOAD_WORD, _NUMBER_AT),
            _instruction(_JUMP_IF_EQUAL, _SOCKET, 0, 3),
            _instruction(_LOAD_WORD, _FIRST_ARGUMENT_AT),
            _instruction(_JUMP_IF_EQUAL, socket.AF_INET6, 0, 1),
            _instruction(_RETURN, _ERRNO | errno.EAFNOSUPPORT),
            _instruction(_RETURN, _ALLOW),
        ]
    )
    kept = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
