"""A server of the store browser, requests to it as any program could send them, and runs for its store."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from harness.store.browser.server import StoreServer


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str


class Served:
    """A server in a thread, for one store."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.server = StoreServer(store, 0)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self._thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Send a request with exactly this path; names of headers with underscores for dashes."""
        connection = HTTPConnection("127.0.0.1", self.server.server_port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": self.host, **headers}.items():
                if value:
                    connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.headers), answer.read().decode(errors="replace"))
        finally:
            connection.close()

    def raw(self, request: bytes) -> bytes:
        """Send bytes, and return the whole answer."""
        with socket.create_connection(("127.0.0.1", self.server.server_port), timeout=30) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))


def add_run(store: Path, name: str, **more: object) -> Path:
    """A run as far as the browser's index reads it."""
    run = store / "runs" / name
    (run / "history").mkdir(parents=True)
    spec = {"environment": "local", "seed": 7, "brokers": 3, "faults": ["kill"], "flaws": []}
    results = {
        "verdict": "valid",
        "reasons": [],
        "anomalies": {},
        "metrics": {"acknowledged_per_s": 500.0, "faults": [{"to_recover_ms": 900.0}, {"to_recover_ms": None}]},
        "incidents": [],
    }
    (run / "spec.json").write_text(json.dumps(spec | dict(more.get("spec", {}))))  # type: ignore[call-overload]
    (run / "results.json").write_text(json.dumps(results | dict(more.get("results", {}))))  # type: ignore[call-overload]
    (run / "report.html").write_text("<p>a report</p>")
    return run


def add_failure(store: Path, name: str, headline: str = "1 acknowledged write was lost", **more: object) -> Path:
    """A run with one lost write."""
    results = {
        "verdict": "invalid",
        "reasons": ["lost-acked-write: 1 violation"],
        "anomalies": {"lost-acked-write": {"violations": 1, "within_contract": 0}},
        "incidents": [{"headline": headline}],
    }
    return add_run(store, name, results=results, **more)
