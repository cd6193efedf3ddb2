"""Reads TOML files with validation of each key; every error is one line that names the file and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.names import SpecError, unknown


class Table:
    """A table of a TOML file; every method may raise `SpecError` with the key's full name."""

    def __init__(self, path: Path, raw: Mapping[str, Any], advice: str, name: str = "") -> None:
        self._path = path
        self._raw = raw
        self._advice = advice
        self._name = name

    @classmethod
    def load(cls, path: Path, what: str, advice: str) -> Table:
        """Read a file; `what` says for errors what kind of file is expected."""
        try:
            return cls(path, tomllib.loads(path.read_text()), advice)
        except OSError as error:
            raise SpecError(f"expected {what} at {path}, found: {error.strerror}; {advice}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SpecError(f"{path}: expected {what} as TOML, found: {error}; {advice}") from error

    def wrong(self, key: str, expected: str, found: object) -> SpecError:
        """Make the error that says what was expected of a key, and what was found."""
        return self.error(key, f"expected {expected}, found {found}")

    def error(self, key: str, text: str) -> SpecError:
        """Make the error that says this of a key."""
        where = f"{self._name}.{key}" if self._name and key else self._name or key
        return SpecError(f"{self._path}: {where}: {text}; {self._advice}")

    def only(self, *known: str) -> None:
        """Require that there are no other keys."""
        for key in self._raw:
            if key not in known:
                where = f"{self._path}: {self._name}" if self._name else str(self._path)
                raise SpecError(f"{where}: {unknown(key, known, 'a key')}; {self._advice}")

    def table(self, key: str, *, needed: bool = False) -> Table | None:
        """A table in this one; None if the key is absent."""
        value = self._raw.get(key)
        if value is None and not needed:
            return None
        if not isinstance(value, dict):
            raise self.wrong(key, "a table", "none" if value is None else repr(value))
        return Table(self._path, value, self._advice, f"{self._name}.{key}" if self._name else key)

    def tables(self, key: str) -> list[Table]:
        """A list of tables, empty if the key is absent."""
        value = self._raw.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.wrong(key, f"tables that begin with [[{key}]]", repr(value))
        return [Table(self._path, each, self._advice, f"{key} {number}") for number, each in enumerate(value, 1)]

    def text(self, key: str, default: str | None = None) -> str:
        """A string, not empty unless that is the default."""
        value = self._raw.get(key, default)
        if not isinstance(value, str) or not (value or default == ""):
            raise self.wrong(key, "a string", "none" if value is None else repr(value))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty if the key is absent."""
        return self._strings(key, self._raw.get(key, ()), "a list of strings")

    def command(self, key: str) -> tuple[str, ...] | None:
        """A program and its arguments."""
        value = self._raw.get(key)
        if value is None:
            return None
        expected = "a command as a list of strings, the program first"
        command = self._strings(key, value, expected)
        if not command or not command[0]:
            raise self.wrong(key, expected, repr(value))
        return command

    def commands(self, key: str) -> tuple[tuple[str, ...], ...]:
        """Several programs with their arguments."""
        value = self._raw.get(key, ())
        expected = "a list of commands, each a list of strings"
        if not isinstance(value, list | tuple):
            raise self.wrong(key, expected, repr(value))
        return tuple(self._strings(key, each, expected) for each in value)

    def mapping(self, key: str) -> Mapping[str, str]:
        """A table of strings."""
        table = self.table(key)
        return {} if table is None else {name: table.text(name, "") for name in table._raw}

    def one_of(self, key: str, known: Sequence[str]) -> str:
        """One of these words, the first if the key is absent."""
        value = self._raw.get(key, known[0])
        self.require_known(key, [value], known)
        return str(value)

    def require_known(self, key: str, found: Iterable[object], known: Iterable[str]) -> None:
        """Require that these values of a key are known names."""
        names = list(known)
        for value in found:
            if value not in names:
                raise self.error(key, unknown(value, names))

    def number(self, key: str, default: int, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        value = self._raw.get(key, default)
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(key, f"a whole number from {low} to {high}", repr(value))
        return value

    def numbers(self, key: str, default: Sequence[int], low: int, high: int) -> tuple[int, ...]:
        """A list of whole numbers from `low` to `high`, at least one."""
        value = self._raw.get(key, default)
        whole = isinstance(value, list | tuple) and all(type(each) is int and low <= each <= high for each in value)
        if not whole or not value:
            raise self.wrong(key, f"a list of whole numbers from {low} to {high}", repr(value))
        return tuple(value)

    @property
    def raw(self) -> Mapping[str, Any]:
        """The table as parsed."""
        return self._raw

    def _strings(self, key: str, value: object, expected: str) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, expected, repr(value))
        return tuple(value)
