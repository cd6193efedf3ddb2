"""Serves the sidecar's HTTP on a Unix socket until the broker ends.

It answers `GET /state` and `GET /log` as Harrow's own broker does, with status 503 while the broker does not answer;
and `GET /features`, the finalized levels of the broker's features.
`python -m harness.systems.sidecar.serve CONFIG.json PID` runs it outside the broker's container, for a broker from an
image in which nothing of ours can run: a process of the host machine, in the broker's network. The readiness command
runs in the container's file system.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socketserver
import sys
import threading
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.systems.sidecar.config import SidecarConfig
from harness.systems.sidecar.probe import BrokerProbe
from harness.systems.sidecar.wire import NodeSilent


def serve(config: SidecarConfig, broker: int) -> None:
    """Serve until the process `broker` has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # goes to the whole group; a broker that shuts down is still queried
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = os.pidfd_open(broker)
    server = _Server(config.socket, _handler(BrokerProbe(config)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    select.select([end], [], [])


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def _handler(probe: BrokerProbe) -> type[BaseHTTPRequestHandler]:
    turn = threading.Lock()  # one connection to the broker, one request at a time

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            try:
                with turn:
                    answer = _answer(probe, url.path, query)
            except NodeSilent as silence:
                self._say(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(silence)})
            else:
                self._say(HTTPStatus.OK if answer is not None else HTTPStatus.NOT_FOUND, answer or {})

        def _say(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The log is the broker's."""

        def address_string(self) -> str:
            """A Unix socket has no peer to name."""
            return "harness"

    return Handler


def _answer(probe: BrokerProbe, path: str, query: dict[str, str]) -> dict[str, Any] | None:
    if path == "/state":
        return probe.state()
    if path == "/features":
        return {"levels": probe.finalized_features()}
    if path == "/log":
        return probe.log(query["topic"], int(query["partition"]), int(query["offset"]), int(query["limit"]))
    return None


def main() -> None:
    """Serve until the process ends; return at once if it has ended already."""
    config, broker = SidecarConfig.load(Path(sys.argv[1])), int(sys.argv[2])
    if config.ready == "command":
        enter = (shutil.which("nsenter") or "nsenter", f"--target={broker}", "--mount", "--root", "--wd")
        config = replace(config, ready_command=(*enter, *config.ready_command))
    with contextlib.suppress(ProcessLookupError):
        serve(config, broker)


if __name__ == "__main__":
    main()
