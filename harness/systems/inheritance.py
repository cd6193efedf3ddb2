"""Reads a system definition together with those that it extends, and merges them (docs/guide/systems.md#variants).

A definition inherits every key but its name and its line about it. Tables are merged key by key; any other value, a
list too, replaces the inherited one.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from common.names import unknown
from common.shelf import own_file
from harness.shipped import SYSTEMS
from harness.spec.toml_table import Table

EXTENDS: Final = "extends"
SEE: Final = "see docs/guide/systems.md"

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_OF_ONE_FILE: Final = frozenset({"name", "about", EXTENDS})


class Inherited(NamedTuple):
    """A definition file, and what it says together with those that it extends."""

    path: Path
    table: Table


def lineage(path: Path) -> Sequence[Inherited]:
    """Read a definition and all that it extends; the one that extends none comes first, `path` last.

    Raises `SpecError` for a file that cannot be read, a base that does not exist, and definitions that extend each
    other.
    """
    files = _files(path)
    merged: Mapping[str, Any] = {}
    read = []
    for file, own in reversed(files):
        merged = _overlaid({key: value for key, value in merged.items() if key not in _OF_ONE_FILE}, own.raw)
        read.append(Inherited(file, Table(file, merged, SEE)))
    return read


def _files(path: Path) -> Sequence[Inherited]:
    """`path` and its bases in order, each with its own table."""
    files = [Inherited(path, Table.load(path, "a system definition", SEE))]
    while (base := _base(*files[-1])) is not None:
        if base.resolve() in {file.resolve() for file, _ in files}:
            circle = " → ".join(file.name for file in (*(file for file, _ in files), base))
            raise files[0].table.wrong(EXTENDS, "definitions that do not extend each other", circle)
        files.append(Inherited(base, Table.load(base, "a system definition", SEE)))
    return files


def _base(path: Path, table: Table) -> Path | None:
    """The file that a definition extends: a path relative to its own, or one that comes with Harrow; None: none."""
    if EXTENDS not in table.raw:
        return None
    text = table.text(EXTENDS)
    if "/" not in text and not text.endswith(".toml"):
        shipped = SYSTEMS.files()
        if text not in shipped:
            known = unknown(text, shipped, "the name of a system definition or a path", "`harrow systems`")
            raise table.error(EXTENDS, known)
        return shipped[text]
    file = own_file(str(path.parent / text))
    if file is None:
        raise table.wrong(EXTENDS, "a file relative to this one", f"none at {path.parent / text}")
    return file


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `above` says, and what `below` says where `above` says nothing."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _overlaid(below[key], above[key])
    return merged


def extended_by(path: Path) -> str | None:
    """What a definition says that it extends; None: nothing."""
    base = tomllib.loads(path.read_text()).get(EXTENDS)
    return None if base is None else str(base)


# --- one file for all


def in_one_file(path: Path) -> str:
    """The text of a definition that needs no other file; its own text if it extends nothing. Raises `SpecError`."""
    if extended_by(path) is None:
        return path.read_text()
    merged = lineage(path)[-1].table.raw
    return _toml({key: value for key, value in merged.items() if key != EXTENDS})


def _toml(table: Mapping[str, Any], name: str = "") -> str:
    """Write a table as TOML, its own keys before the tables in it."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"[{name}]"] if name and (plain or not table) else []
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    text = "".join(f"{line}\n" for line in lines)
    within = f"{name}." if name else ""
    parts = [_toml(value, within + _key(key)) for key, value in table.items() if isinstance(value, dict)]
    return "\n".join(part for part in (text, *parts) if part)


def _key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else f'"{_escaped(text)}"'


def _value(value: object) -> str:
    if isinstance(value, str):
        lines = [_escaped(line) for line in value.split("\n")]
        return f'"{lines[0]}"' if len(lines) == 1 else '"""\n' + "\n".join(lines) + '"""'
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    """Escape as in JSON, whose strings are those of TOML but for one character."""
    return json.dumps(text, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007F")
