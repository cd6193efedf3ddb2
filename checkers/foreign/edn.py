"""Reads Jepsen's histories in EDN: operation maps one after another, or in one vector.

The reader never raises, and is small rather than complete: it knows all of EDN's syntax, drops tags (`#inst "…"` is its
string), and keeps no more than one operation in memory beside the text. What it cannot read is a `Malformed` row; it
goes on at the next line that begins an operation. It does not recurse, so that no nesting exhausts the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from checkers.foreign.events import DEPTH_MAX, Keyword, Malformed, Rows, Value, event_of, frozen

_WORD = re.compile(
    r"""
    (?P<space>(?:[\s,]+|;[^\n]*)+)
  | (?P<string>"(?:[^"\\]|\\.)*+")
  | (?P<character>\\(?:newline|return|space|tab|formfeed|backspace|u[0-9A-Fa-f]{4}|.))
  | (?P<discard>\#_)
  | (?P<open>\#\{|[(\[{])
  | (?P<close>[)\]}])
  | (?P<symbolic>\#\#[^\s,;"()\[\]{}\\]+)
  | (?P<tag>\#[^\s,;"()\[\]{}\\#]+)
  | (?P<atom>[^\s,;"()\[\]{}\\\#][^\s,;"()\[\]{}\\]*)
    """,
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?\d{1,1000}N?")
_DECIMAL = re.compile(r"[+-]?\d{1,400}(\.\d*)?([eE][+-]?\d{1,5})?M?")
_OPERATION_BEGINS = re.compile(r"^[\s\[(,]*(?:#[^\s{]+)?\{", re.MULTILINE)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_SPACES = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_CONSTANTS = {"nil": None, "true": True, "false": False}


class Form(NamedTuple):
    """One form and the line, from 1, that it ends on."""

    line: int
    value: Value


class _Open:
    """An open collection, and how many of its next forms are to be dropped (`#_`)."""

    __slots__ = ("begun_by", "dropped", "parts")

    def __init__(self, begun_by: str) -> None:
        self.begun_by = begun_by
        self.parts: list[Value] = []
        self.dropped = 0


def edn_rows(text: str) -> Rows:
    """Read the events of an EDN history."""
    position = 0
    for form in forms(text):
        if isinstance(form, Malformed):
            yield form
            continue
        yield event_of(form.value, position, form.line)
        position += 1


def forms(text: str) -> Iterator[Form | Malformed]:
    """Read the forms of a text. A vector or list around them counts as no form: its elements do."""
    at, line = 0, 1
    stack: list[_Open] = []
    dropped = 0
    while at < len(text):
        match = _WORD.match(text, at)
        problem = None
        value: Value = None
        whole = False
        if match is None:
            problem = "unreadable text"
        else:
            kind, word, at = match.lastgroup, match.group(), match.end()
            line += word.count("\n") if kind in ("space", "string") else 0
            if kind in ("space", "tag"):
                continue
            if kind == "discard":
                if stack:
                    stack[-1].dropped += 1
                else:
                    dropped += 1
                continue
            if kind == "open" and len(stack) < DEPTH_MAX:
                if stack or word.endswith("{"):
                    stack.append(_Open(word))
                continue
            if kind == "open":
                problem = f"nested deeper than {DEPTH_MAX} levels"
            elif kind == "close":
                if not stack:
                    if word == "}":
                        yield Malformed(line, "a brace that closes nothing")
                    continue
                opened = stack.pop()
                if _CLOSES[opened.begun_by] != word:
                    problem = f"expected {_CLOSES[opened.begun_by]}, found {word}"
                else:
                    value = _collection(opened)
                    whole = True
            else:
                assert kind is not None
                value = _SCALARS[kind](word)
                whole = True
        if problem is not None:
            yield Malformed(line, problem)
            begins = _OPERATION_BEGINS.search(text, text.find("\n", at) + 1 or len(text))
            resumed = begins.start() if begins else len(text)
            line += text.count("\n", at, resumed)
            at, dropped = resumed, 0
            stack.clear()
        elif whole and stack:
            if stack[-1].dropped:
                stack[-1].dropped -= 1
            else:
                stack[-1].parts.append(value)
        elif whole and dropped:
            dropped -= 1
        elif whole:
            yield Form(line, value)
    if stack:
        yield Malformed(line, "the text ends within an operation")


def _collection(opened: _Open) -> Value:
    parts = opened.parts
    if opened.begun_by == "{":
        # A map of an odd number of forms has lost one; the rest is still useful.
        return {
            key if isinstance(key, str) else frozen(key): value
            for key, value in zip(parts[::2], parts[1::2], strict=False)
        }
    if opened.begun_by == "#{":
        return frozenset(frozen(part) for part in parts)
    return tuple(parts)


def _atom(word: str) -> Value:
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if word[0] == ":":
        return Keyword(word[1:])
    if _INTEGER.fullmatch(word):
        return int(word.rstrip("N"))
    if _DECIMAL.fullmatch(word):
        return float(word.rstrip("M"))
    return Keyword(word)


def _string(word: str) -> str:
    body = word[1:-1]
    return _ESCAPE.sub(_unescaped, body) if "\\" in body else body


def _unescaped(match: re.Match[str]) -> str:
    escaped = match.group(1)
    return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _ESCAPES.get(escaped, escaped)


def _character(word: str) -> str:
    name = word[1:]
    return chr(int(name[1:], 16)) if len(name) == 5 and name[0] == "u" else _SPACES.get(name, name)


_SCALARS: dict[str, Callable[[str], Value]] = {
    "atom": _atom,
    "string": _string,
    "character": _character,
    "symbolic": Keyword,
}
