"""Serves the store browser: read-only, on loopback, to pages of its own only.

A request is refused if its `Host` is not this server's address (a foreign name that resolves to loopback, as in DNS
rebinding, is another), if its `Origin` is another, and if a browser says that a foreign page embeds or fetches it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from harness.store.browser.files import files_of, read_file
from harness.store.browser.index import StoreIndex
from harness.store.browser.running import is_running, running_now
from harness.store.run_directories import RUNS
from harness.terminal.exits import describe
from reports.browser import pages
from reports.browser.progress import REFRESHED_EVERY_S, progress_page
from reports.browser.selection import Selection, nearest_passing

HOST: Final = "127.0.0.1"
NAMES: Final = ("127.0.0.1", "localhost")
REQUEST_S_MAX: Final = 10.0
WRITE_BYTES: Final = 1 << 16
"""Head and content go out together up to this size."""
COMPARABLE_MAX: Final = 200
"""Runs that a run's page offers for a comparison."""

_HTML: Final = "text/html; charset=utf-8"
_OF_PAGES: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_OF_FILES: Final = (
    "sandbox allow-scripts allow-popups; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A file of the store may come from anywhere: its scripts run in an origin of their own, and can send nothing."""


class StoreServer(ThreadingHTTPServer):
    """A server for one store. `port` 0 takes a free one. Raises `OSError` if the port is taken."""

    daemon_threads = True

    def __init__(self, store: Path, port: int) -> None:
        self.index = StoreIndex(store)
        self.index.runs()
        self.index.suites()
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """The address of the list of runs."""
        return f"http://{HOST}:{self.server_port}/"


class _Answer(NamedTuple):
    """What a request gets."""

    content: bytes
    media_type: str = _HTML
    policy: str = _OF_PAGES
    status: HTTPStatus = HTTPStatus.OK
    more: Mapping[str, str] = {}
    """Further headers."""


class _NotFound(Exception):
    """There is no such page; the message says what was not found."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: StoreServer
    timeout = REQUEST_S_MAX
    disable_nagle_algorithm = True  # else the end of an answer waits until its beginning is acknowledged
    wbufsize = WRITE_BYTES
    server_version = "harrow"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with a page or a file."""
        refusal = self._refusal()
        if refusal:
            self._send(_error(HTTPStatus.FORBIDDEN, refusal))
            return
        try:
            split = urlsplit(self.path)
            parameters = {name: values[-1] for name, values in parse_qs(split.query, max_num_fields=20).items()}
            answer = self._found(unquote(split.path), parameters)
        except ValueError:
            answer = _error(HTTPStatus.BAD_REQUEST, "expected an address of this server, found none")
        except _NotFound as error:
            answer = _error(HTTPStatus.NOT_FOUND, str(error))
        except Exception as error:  # a run that breaks its own page must not break the server
            answer = _error(HTTPStatus.INTERNAL_SERVER_ERROR, describe(error))
        self._send(answer)

    def do_HEAD(self) -> None:
        """Answer as to GET, without the content."""
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named by the library)
        """Log nothing: there is nobody but the user."""

    def _refusal(self) -> str:
        """Why this request is not answered; empty if it is."""
        hosts = {f"{name}:{self.server.server_port}" for name in NAMES}
        given = self.headers.get_all("Host", [])
        if len(given) != 1 or given[0].lower() not in hosts:
            return f"expected the host {HOST}:{self.server.server_port}, found another"
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in hosts}:
            return "expected a page of this server to ask, found another origin"
        followed = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.headers.get("Sec-Fetch-Dest") == "document"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not followed:
            return "expected a page of this server to ask, found another site"
        return ""

    def _found(self, path: str, given: Mapping[str, str]) -> _Answer:
        index = self.server.index
        selection = Selection(given.get("q", ""), given.get("verdict", ""), given.get("environment", ""))
        more: Mapping[str, str] = {}
        if path.startswith("/store/"):
            file = read_file(index.store, path.removeprefix("/store/"))
            if file is None:
                raise _NotFound("expected a file of the store, found none")
            return _Answer(file.content, file.media_type, _OF_FILES)
        if path == "/":
            page = given.get("page", "1")
            number = int(page) if page.isascii() and page.isdecimal() and len(page) < 10 else 1
            text = pages.list_page(index.runs(), selection, number, running=is_running(index.store))
        elif path == "/suites":
            text = pages.suites_page(index.suites())
        elif path == "/trends":
            text = pages.trends_page(index.runs(), selection)
        elif path == "/now":
            refreshed = not given.get("still")
            now = running_now(index.store, {entry.name for entry in index.runs()})
            text = progress_page(now, refreshed=refreshed)
            more = {"Refresh": str(REFRESHED_EVERY_S)} if refreshed else {}
        elif path == "/compare":
            text = self._compare(given.get("one", ""), given.get("other", ""))
        elif path.startswith("/runs/"):
            text = self._run(path.removeprefix("/runs/"))
        else:
            raise _NotFound("expected a page of this server, found none")
        return _Answer(text.encode(errors="replace"), more=more)

    def _run(self, name: str) -> str:
        index = self.server.index
        entries = index.runs()
        run = next((entry for entry in entries if entry.name == name), None)
        if run is None:
            raise _NotFound(f"expected a run of the store, found no {name}")
        others = [entry for entry in entries if entry.name != name][:COMPARABLE_MAX]
        nearest = nearest_passing(run, entries) if run.verdict == "invalid" else None
        return pages.run_page(run, self._results(name), files_of(index.directory(run)), nearest, others)

    def _results(self, name: str) -> Mapping[str, Any]:
        file = read_file(self.server.index.store, f"{RUNS}/{name}/results.json")
        try:
            results = json.loads(file.content) if file is not None else {}
        except (ValueError, RecursionError):
            return {}
        return results if isinstance(results, dict) else {}

    def _compare(self, one: str, other: str) -> str:
        entries = {entry.name: entry for entry in self.server.index.runs()}
        for name in (one, other):
            if name not in entries:
                raise _NotFound(f"expected a run of the store, found {name or 'none'}")
        return pages.compare_page(one, other, self.server.index.compared(entries[one], entries[other]))

    def _send(self, answer: _Answer) -> None:
        self.send_response(answer.status)
        for name, value in {
            "Content-Type": answer.media_type,
            "Content-Length": str(len(answer.content)),
            "Content-Security-Policy": answer.policy,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            **answer.more,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)


def _error(status: HTTPStatus, line: str) -> _Answer:
    return _Answer(pages.error_page(status, line).encode(errors="replace"), status=status)
