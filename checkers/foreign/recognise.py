"""Recognises the format of a file by its content, and reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from checkers.foreign.edn import edn_rows
from checkers.foreign.events import Rows
from checkers.foreign.jepsen_log import event_in, log_rows
from checkers.foreign.kafka import json_rows
from checkers.foreign.porcupine import porcupine_rows

STORE: Final = "store"
EDN: Final = "jepsen-edn"
HEAD_BYTES = 1 << 16
TEXT_BYTES_MAX = 1 << 31
"""EDN is read as one text; a larger file must be cut, or be written as JSON lines, which are read one by one."""

_KEY_VALUE = re.compile(r"\s*\{[^\n]*:f\s+:(?:get|put|append)\b[^\n]*:key\s[^\n]*\}\s*")
_EDN = re.compile(r"[\s,]*(?:;[^\n]*\n[\s,]*)*(?:[\[(][\s,]*)*(?:;[^\n]*\n[\s,]*)*(?:#[^\s{\"]+\s*)?\{?\s*(?::|\}|$)")
_JSON = re.compile(r"\s*\{\s*(?:\"|\})")

_BY_LINE: Mapping[str, Callable[[Iterable[str]], Rows]] = {
    "jepsen-log": log_rows,
    "porcupine": porcupine_rows,
    "json-lines": json_rows,
}
FORMATS = (EDN, *_BY_LINE, STORE)
"""Names of all formats."""


class UnreadableError(Exception):
    """A file cannot be read as a history. One line: what was expected, what was found."""


def recognise(path: Path) -> str | None:
    """Return the format of a file or directory, None if its content is of no known format. Raises `OSError`."""
    if path.is_dir():
        return STORE if (path / "history").is_dir() else None
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES).decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line for line in head.splitlines() if line.strip()]
    if any(event_in(line) for line in lines[:200]):
        return "jepsen-log"
    first = next((line for line in lines if not line.lstrip().startswith(";")), "")
    if _KEY_VALUE.fullmatch(first):
        return "porcupine"
    if _JSON.match(head):
        return "json-lines"
    return EDN if first and _EDN.match(head) else None


def rows_of(path: Path, form: str) -> Rows:
    """Read a file of a format. Raises `OSError`, and `UnreadableError` where its size forbids it."""
    if form != EDN:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            yield from _BY_LINE[form](_without_mark(file))
        return
    size = path.stat().st_size
    if size > TEXT_BYTES_MAX:
        raise UnreadableError(f"expected at most {TEXT_BYTES_MAX:,} bytes of EDN, found {size:,}; use JSON lines")
    yield from edn_rows(path.read_text(encoding="utf-8", errors="replace").removeprefix("\ufeff"))


def _without_mark(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix("\ufeff")
