"""Starts a member of an ensemble: forks its sidecar, becomes the JVM. `python -m harness.systems.own.member FILE`.

The sidecar runs in the member's network, where the harness itself is not. It answers at a Unix socket until the member
has ended: `GET /state`, what the member says of itself, and `GET /partitions`, what is in the tree of znodes; with
status 503 while the member does not serve.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socketserver
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

from harness.systems.own.ensemble import MemberConfig

if TYPE_CHECKING:
    from harness.systems.own.member_probe import MemberProbe

FAILED = 4


def launch(config: MemberConfig) -> int:
    """Become the member; returns only on failure."""
    data = Path(config.data)
    data.mkdir(parents=True, exist_ok=True)
    (data / "myid").write_text(f"{config.member}\n")
    member = os.getpid()
    if os.fork() == 0:
        from harness.systems.own.member_probe import MemberProbe  # the member does not wait for what it imports

        _serve(config.socket, MemberProbe(config.address, data), member)
        os._exit(0)
    try:
        os.execvp(config.command[0], list(config.command))  # noqa: S606
    except OSError as error:
        print(f"expected to run {config.command[0]!r}, found: {error.strerror}", file=sys.stderr, flush=True)
        return FAILED


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def _serve(path: str, probe: MemberProbe, member: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # goes to the whole group
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = os.pidfd_open(member)
    server = _Server(path, _handler(probe))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    select.select([end], [], [])


def _handler(probe: MemberProbe) -> type[BaseHTTPRequestHandler]:
    from harness.systems.own.member_probe import MemberSilent

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ask = {"/state": probe.state, "/partitions": probe.partitions}.get(self.path)
            try:
                status, answer = (HTTPStatus.NOT_FOUND, {}) if ask is None else (HTTPStatus.OK, ask())
            except MemberSilent as silence:
                status, answer = HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(silence)}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The log is the member's."""

        def address_string(self) -> str:
            """A Unix socket has no peer to name."""
            return "harness"

    return Handler


if __name__ == "__main__":
    sys.exit(launch(MemberConfig.load(Path(sys.argv[1]))))
