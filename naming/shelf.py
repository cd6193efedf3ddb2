"""Files that are known by their names: the suites, systems and schedules that come with Harrow, or a user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naming import SpecError, unknown

_SUFFIX: Final = ".toml"


@dataclass(frozen=True)
class Shelf:
    """Files of one kind, each known by its name without the suffix."""

    what: str  # "a suite"
    folder: str  # of the repository, and the command that lists them
    directory: Path

    def files(self) -> Mapping[str, Path]:
        """All files by name, in the order of their names."""
        return {path.stem: path for path in sorted(self.directory.glob(f"*{_SUFFIX}"))}

    def abouts(self) -> Mapping[str, str]:
        """Each name with one line about it."""
        return {name: _about(path) for name, path in self.files().items()}

    def name_of(self, text: str) -> str | None:
        """The name here that a text means; None if it means a file of one's own, or nothing.

        A file of one's own comes first: the one at that path, with the suffix or without.
        """
        if (own := own_file(text)) is not None:
            return own.stem if own.resolve().parent == self.directory.resolve() else None
        name = text.removeprefix(f"{self.folder}/").removesuffix(_SUFFIX)
        return name if name in self.files() else None

    def find(self, text: str) -> Path:
        """The file of one's own, or else the one of that name. Raises `SpecError`."""
        own = own_file(text)
        if own is not None:
            return own
        files = self.files()
        name = self.name_of(text)
        if name is None:
            raise SpecError(unknown(text, files, f"a file or the name of {self.what}", f"`harrow {self.folder}`"))
        return files[name]


def own_file(text: str) -> Path | None:
    """The file that is at a path, with the suffix or without; None if there is none."""
    return next((path for path in (Path(text), Path(f"{text}{_SUFFIX}")) if path.is_file()), None)


def _about(path: Path) -> str:
    said = tomllib.loads(path.read_text())
    return str(said.get("about") or said.get("title") or "")
