"""Finds files by name: suites, systems and schedules that come with Harrow, or a user's own files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.names import SpecError, unknown

_SUFFIX: Final = ".toml"


@dataclass(frozen=True)
class Shelf:
    """A folder of files of one kind, each named without its suffix; it may have folders in it."""

    what: str  # "a suite"
    folder: str  # of the repository, and the command that lists them
    directory: Path

    def files(self) -> Mapping[str, Path]:
        """All files by name, sorted by name."""
        return {path.stem: path for path in sorted(self.directory.rglob(f"*{_SUFFIX}"), key=lambda path: path.stem)}

    def abouts(self) -> Mapping[str, str]:
        """Each name with one line about it."""
        return {name: _about(path) for name, path in self.files().items()}

    def name_of(self, text: str) -> str | None:
        """The name in this folder that `text` refers to; None if it refers to a user's own file, or to nothing.

        A user's own file has priority: the one at that path, with the suffix or without.
        """
        if (own := own_file(text)) is not None:
            return own.stem if self.directory.resolve() in own.resolve().parents else None
        name = text.removeprefix(f"{self.folder}/").removesuffix(_SUFFIX)
        return name if name in self.files() else None

    def find(self, text: str) -> Path:
        """The user's own file, or else the file with that name here. Raises `SpecError`."""
        own = own_file(text)
        if own is not None:
            return own
        files = self.files()
        name = self.name_of(text)
        if name is None:
            raise SpecError(unknown(text, files, f"a file or the name of {self.what}", f"`harrow {self.folder}`"))
        return files[name]


def own_file(text: str) -> Path | None:
    """The file at a path, with the suffix or without; None if there is none."""
    return next((path for path in (Path(text), Path(f"{text}{_SUFFIX}")) if path.is_file()), None)


def _about(path: Path) -> str:
    content = tomllib.loads(path.read_text())
    return str(content.get("about") or content.get("title") or "")
