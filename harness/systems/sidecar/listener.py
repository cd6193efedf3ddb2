"""Answers questions about a process in JSON, over HTTP on a Unix socket, until that process has ended."""

from __future__ import annotations

import json
import os
import select
import signal
import socketserver
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """One connection."""

    def answer(self) -> tuple[HTTPStatus, dict[str, Any]]:
        """The answer to what `path` asks for."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Send the answer."""
        status, answer = self.answer()
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The log is the process's."""

    def address_string(self) -> str:
        """A Unix socket has no peer to name."""
        return "harness"


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def serve_until_ended(path: str, handler: type[JsonHandler], process: int) -> None:
    """Serve at a Unix socket until a process has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # goes to the whole group; what shuts down is still asked
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = os.pidfd_open(process)
    server = _Server(path, handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    select.select([end], [], [])
