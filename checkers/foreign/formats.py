"""Recognises the format of a file by its content, and reads its events, one function for each format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from checkers.foreign.edn import Form, edn_rows, forms
from checkers.foreign.events import TYPES, Aside, Event, Malformed, Rows, event_of

STORE: Final = "store"
EDN: Final = "jepsen-edn"
HEAD_BYTES = 1 << 16
TEXT_BYTES_MAX = 1 << 31
"""EDN is read as one text; a larger file must be cut, or be written as JSON lines, which are read one by one."""
KEY_VALUE_FUNCTIONS = frozenset({"get", "put", "append"})
EVENT = re.compile(r"(?:[^\t]* )?(?P<process>:?[\w-]+)\t:(?P<type>\w+)\t:(?P<f>[\w-]+)(?:\t(?P<value>.*))?", re.DOTALL)
_PARTED_BY_BLANKS = re.compile(
    r"\s*(?:[^\s{\[(#;].*?\s)??(?P<process>\d+|:?nemesis)\s+:(?P<type>invoke|ok|fail|info)\s+:(?P<f>[\w-]+)"
    r"(?:\s+(?P<value>.*))?",
    re.DOTALL,
)
_KEY_VALUE = re.compile(r"\s*\{[^\n]*:f\s+:(?:get|put|append)\b[^\n]*:key\s[^\n]*\}\s*")
_EDN = re.compile(r"[\s,]*(?:;[^\n]*\n[\s,]*)*(?:[\[(][\s,]*)*(?:;[^\n]*\n[\s,]*)*(?:#[^\s{\"]+\s*)?\{?\s*(?::|\}|$)")
_JSON = re.compile(r"\s*\{\s*(?:\"|\})")


def porcupine_rows(lines: Iterable[str]) -> Rows:
    """Read the events of Porcupine's key-value files: `{:process 0, :type :invoke, :f :get, :key "k", :value nil}`."""
    position = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        read = next(forms(line), None)
        row = event_of(read.value, position, number) if isinstance(read, Form) else Malformed(number, "expected a map")
        position += 1
        if isinstance(row, Event) and row.f not in KEY_VALUE_FUNCTIONS:
            row = Malformed(number, "expected an :f among get, put and append")
        yield row


def event_in(line: str) -> re.Match[str] | None:
    """Match the process, type, f and value of an event; None for any other line."""
    return EVENT.fullmatch(line) or _PARTED_BY_BLANKS.fullmatch(line)


def log_rows(lines: Iterable[str]) -> Rows:
    """Read Jepsen's text log: `INFO  jepsen.util - <process>` TAB `:<type>` TAB `:<f>` TAB `<value>`, one event a line.

    Instead of tabs there may be blanks, as a terminal or an editor leaves them; then only numbers and the nemesis are
    processes, and a line that begins as EDN is none. Lines of other loggers are passed over, broken ones of this one
    are not.

    `:fail :read` is a read that was not answered. `:info …` and any operation without an answer may have happened at
    any time after its invocation, or never. `:fail :cas` means that the comparison failed, which is an observation too.
    """
    position = 0
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        if not text.strip():
            continue
        match = event_in(text)
        if match is None:
            if "jepsen.util" in text or "\t:" in text:
                yield Malformed(number, "expected a process, a type, a function and a value, parted by tabs or blanks")
            continue
        if match["type"] not in TYPES:
            yield Malformed(number, "expected a type among invoke, ok, fail and info")
            continue
        position += 1
        if not match["process"].isdigit():
            yield Aside(match["process"].lstrip(":"), match["f"])
            continue
        read = next(forms("{:value " + (match["value"] or "nil") + "\n}"), None)
        if not isinstance(read, Form) or not isinstance(read.value, dict):
            yield Malformed(number, "expected a value of EDN")
            continue
        value = read.value.get("value")
        yield Event(position - 1, int(match["process"][:18]), match["type"], match["f"], value)


def json_rows(lines: Iterable[str]) -> Rows:
    """Read the events of a file of JSON lines."""
    position = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            form = json.loads(line)
        except (ValueError, RecursionError):
            yield Malformed(number, "expected an operation as one line of JSON")
            continue
        yield event_of(form, position, number)
        position += 1


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
