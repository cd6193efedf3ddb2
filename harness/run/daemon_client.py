"""Sends requests to the daemon of an interactive cluster: a JSON object; the reply is JSON lines up to an end mark."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.run.stopping import MissingPrerequisite, RunFailed

ABOUT = "cluster.json"
"""Describes a running interactive cluster by `socket`, `bootstrap`, `spare`; it is there as long as that."""


def about(directory: Path) -> Mapping[str, Any]:
    """The description of the cluster that runs in a directory. Raises `MissingPrerequisite` if there is none."""
    try:
        known: Mapping[str, Any] = json.loads((directory / ABOUT).read_text())
    except (OSError, ValueError) as error:
        raise MissingPrerequisite(
            f"expected a cluster that runs in {directory}, found none; harrow cluster up"
        ) from error
    return known


def request(directory: Path, **content: object) -> Iterator[Mapping[str, Any]]:
    """Send one request; yield the daemon's replies. Raises `RunFailed` when it refuses or is gone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(about(directory)["socket"])
            connection.sendall(json.dumps(content).encode() + b"\n")
        except OSError as error:
            raise RunFailed(
                f"expected the daemon of the cluster in {directory} to answer, found: {error}; harrow heal {directory}"
            ) from error
        with connection.makefile("rb") as lines:
            for line in lines:
                reply = json.loads(line)
                if "error" in reply:
                    raise RunFailed(reply["error"])
                if "end" in reply:
                    return
                yield reply
    raise RunFailed(f"expected a complete reply, found that the daemon of the cluster in {directory} died")
