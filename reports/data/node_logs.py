"""Reads the last lines that each node wrote to its log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

LINES = 40
NODES_MAX = 24
LINE_CHARACTERS = 400
_TAIL_BYTES = 64 * 1024
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class NodeLog(NamedTuple):
    """The tail of one log file, or why there is none."""

    node: str
    file: str
    lines: tuple[str, ...]


def node_logs(run_directory: Path) -> list[NodeLog]:
    """Return the tails of `nodes/<id>/*.log`, by node, at most `NODES_MAX` of them."""
    paths = sorted((run_directory / "nodes").glob("*/*.log"), key=lambda path: (_number(path.parent.name), path.name))
    return [NodeLog(path.parent.name, path.name, _tail(path)) for path in paths[:NODES_MAX]]


def _number(name: str) -> tuple[int, str]:
    return (int(name), name) if name.isdecimal() else (1 << 31, name)


def _tail(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        return (f"could not be read: {error.strerror}",)
    return tuple(_printable(line) for line in text.splitlines()[-LINES:])


def _printable(line: str) -> str:
    line = _CONTROL.sub("�", line)
    return line if len(line) <= LINE_CHARACTERS else f"{line[:LINE_CHARACTERS]} …"
