"""Serves the sidecar's HTTP on a Unix socket until the broker ends.

It answers `GET /state` and `GET /log` as Harrow's own broker does, with status 503 while the broker does not answer;
and `GET /features`, the finalized levels of the broker's features.
`python -m harness.systems.sidecar.serve CONFIG.json PID` runs it outside the broker's container, for a broker from an
image in which nothing of ours can run: a process of the host machine, in the broker's network. The readiness command
runs in the container's file system.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.systems.sidecar.config import SidecarConfig
from harness.systems.sidecar.listener import JsonHandler, serve_until_ended
from harness.systems.sidecar.probe import BrokerProbe
from harness.systems.sidecar.wire import NodeSilent


def serve(config: SidecarConfig, broker: int) -> None:
    """Serve until the process `broker` has ended."""
    serve_until_ended(config.socket, _handler(BrokerProbe(config)), broker)


def _handler(probe: BrokerProbe) -> type[JsonHandler]:
    turn = threading.Lock()  # one connection to the broker, one request at a time

    class Handler(JsonHandler):
        def answer(self) -> tuple[HTTPStatus, dict[str, Any]]:
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            try:
                with turn:
                    answer = _answer(probe, url.path, query)
            except NodeSilent as silence:
                return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(silence)}
            return (HTTPStatus.OK, answer) if answer is not None else (HTTPStatus.NOT_FOUND, {})

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
