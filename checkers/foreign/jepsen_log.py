"""Reads Jepsen's text log: `INFO  jepsen.util - <process>` TAB `:<type>` TAB `:<f>` TAB `<value>`, one event a line.

Instead of tabs there may be blanks, as a terminal or an editor leaves them; then only numbers and the nemesis are
processes, and a line that begins as EDN is none.

`:fail :read` is a read that was not answered. `:info …` and any operation without an answer may have happened at any
time after its invocation, or never. `:fail :cas` means that the comparison failed, which is an observation too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from checkers.foreign.edn import Form, forms
from checkers.foreign.events import TYPES, Aside, Event, Malformed, Rows

EVENT = re.compile(r"(?:[^\t]* )?(?P<process>:?[\w-]+)\t:(?P<type>\w+)\t:(?P<f>[\w-]+)(?:\t(?P<value>.*))?", re.DOTALL)

_PARTED_BY_BLANKS = re.compile(
    r"\s*(?:[^\s{\[(#;].*?\s)??(?P<process>\d+|:?nemesis)\s+:(?P<type>invoke|ok|fail|info)\s+:(?P<f>[\w-]+)"
    r"(?:\s+(?P<value>.*))?",
    re.DOTALL,
)


def event_in(line: str) -> re.Match[str] | None:
    """Match the process, type, f and value of an event; None for any other line."""
    return EVENT.fullmatch(line) or _PARTED_BY_BLANKS.fullmatch(line)


def log_rows(lines: Iterable[str]) -> Rows:
    """Read the events of a log; lines of other loggers are passed over, broken ones of this one are not."""
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
