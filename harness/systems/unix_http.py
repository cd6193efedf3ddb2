"""HTTP client over a Unix socket, which network faults do not affect."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any


class NoAnswer(Exception):
    """No answer in time, or not a valid one. The message says what was found."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("node", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def get_json(path: Path, target: str, timeout_s: float) -> dict[str, Any]:
    """Request `target`; the answer must be a JSON object with status 200. Raises `NoAnswer`."""
    connection = _UnixConnection(path, timeout_s)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        body = response.read()
        answer = json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(f"{path.name} did not answer {target}: {error}") from error
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK or not isinstance(answer, dict):
        raise NoAnswer(f"{path.name} answered {target} with status {response.status}: {body[:200]!r}")
    return answer
