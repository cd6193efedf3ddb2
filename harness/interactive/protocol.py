"""Talking to the owner of a standing cluster: one JSON object there, lines of JSON back, of which one is the end."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.run.stopping import Failed, Lacking

ABOUT = "cluster.json"
"""What is known of a standing cluster: `pid`, `socket`, `bootstrap`. It is there as long as the cluster stands."""


def about(directory: Path) -> Mapping[str, Any]:
    """What is known of the cluster that stands in a directory. Raises `Lacking` if there is none."""
    try:
        known: Mapping[str, Any] = json.loads((directory / ABOUT).read_text())
    except (OSError, ValueError) as error:
        raise Lacking(f"expected a cluster that stands in {directory}, found none; harrow cluster up") from error
    return known


def order(directory: Path, **request: object) -> Iterator[Mapping[str, Any]]:
    """Give one order; what the owner says to it, line by line. Raises `Failed` when it refuses or is gone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(about(directory)["socket"])
            connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise Failed(
                f"expected the owner of the cluster in {directory} to answer, found: {error}; harrow heal {directory}"
            ) from error
        with connection.makefile("rb") as lines:
            for line in lines:
                said = json.loads(line)
                if "error" in said:
                    raise Failed(said["error"])
                if "end" in said:
                    return
                yield said
    raise Failed(f"expected an answer to its end, found that the owner of the cluster in {directory} died")
