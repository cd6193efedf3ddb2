"""Starts a member of an ensemble: forks its sidecar, becomes the JVM. `python -m harness.systems.own.member FILE`.

The sidecar runs in the member's network, where the harness itself is not. It answers at a Unix socket until the member
has ended: `GET /state`, what the member says of itself, and `GET /partitions`, what is in the tree of znodes; with
status 503 while the member does not serve.
"""

from __future__ import annotations

import os
import sys
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.systems.own.ensemble import MemberConfig
from harness.systems.sidecar.listener import JsonHandler, serve_until_ended

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

        serve_until_ended(config.socket, _handler(MemberProbe(config.address, data)), member)
        os._exit(0)
    try:
        os.execvp(config.command[0], list(config.command))  # noqa: S606
    except OSError as error:
        print(f"expected to run {config.command[0]!r}, found: {error.strerror}", file=sys.stderr, flush=True)
        return FAILED


def _handler(probe: MemberProbe) -> type[JsonHandler]:
    from harness.systems.own.member_probe import MemberSilent

    class Handler(JsonHandler):
        def answer(self) -> tuple[HTTPStatus, dict[str, Any]]:
            ask = {"/state": probe.state, "/partitions": probe.partitions}.get(self.path)
            try:
                return (HTTPStatus.NOT_FOUND, {}) if ask is None else (HTTPStatus.OK, ask())
            except MemberSilent as silence:
                return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(silence)}

    return Handler


if __name__ == "__main__":
    sys.exit(launch(MemberConfig.load(Path(sys.argv[1]))))
