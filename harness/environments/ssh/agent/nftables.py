"""Changes nftables rules through libnftables, without starting a process, or else by the program `nft`."""

from __future__ import annotations

import ctypes
import subprocess
from typing import Any


class Nft:
    """Runs commands of nft(8), with the library if it exists, else the program. Not safe for several threads."""

    def __init__(self) -> None:
        self._library = _load()
        self._context = None if self._library is None else self._library.nft_ctx_new(0)
        if self._library is not None:
            self._library.nft_ctx_buffer_output(self._context)
            self._library.nft_ctx_buffer_error(self._context)

    def run(self, text: str) -> str:
        """Run commands atomically; returns their output. Raises `OSError` when they are refused."""
        if self._library is None:
            done = subprocess.run(["nft", "-f", "-"], input=text, capture_output=True, text=True, check=False)
            status, output, errors = done.returncode, done.stdout, done.stderr
        else:
            status = self._library.nft_run_cmd_from_buffer(self._context, text.encode())
            output = self._library.nft_ctx_get_output_buffer(self._context).decode()
            errors = self._library.nft_ctx_get_error_buffer(self._context).decode()
        if status != 0:
            raise OSError(0, f"nft refused: {' '.join(errors.split())}")
        return output


def _load() -> Any:  # noqa: ANN401
    """Load the library and declare the types of its functions (libnftables(3)); None if it is missing."""
    try:
        library = ctypes.CDLL("libnftables.so.1")
    except OSError:
        return None
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_buffer_output.argtypes = library.nft_ctx_buffer_error.argtypes = [ctypes.c_void_p]
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    for name in ("nft_ctx_get_output_buffer", "nft_ctx_get_error_buffer"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
        getattr(library, name).restype = ctypes.c_char_p
    return library
