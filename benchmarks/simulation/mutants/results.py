"""Keeps results in a file of JSON lines, each appended as it comes: an interrupted hunt is continued where it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.simulation.mutants.simulating import HuntResult, ProbedSeed
from benchmarks.simulation.mutants.testing import ShownMutant

_FORMAT = 2

Row = TypeVar("Row", ProbedSeed, HuntResult, ShownMutant)


@dataclass
class Results:
    """What is known so far. The file is of certain sources, a budget of seeds and a search, and of no others."""

    path: Path
    sources: str
    """The fingerprint of the sources."""
    seeds: range
    search: str
    probed: dict[int, ProbedSeed] = field(default_factory=dict)
    hunted: dict[str, HuntResult] = field(default_factory=dict)
    tested: dict[str, ShownMutant] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, sources: str, seeds: range, search: str) -> Results:
        """The results in the file, if there is one. Raises ValueError if they are of others than those given."""
        found = cls(path, sources, seeds, search)
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        if lines and not lines[-1].endswith(b"\n"):
            path.write_bytes(b"".join(lines[:-1]))  # written when the command was killed
            del lines[-1]
        if not lines:
            path.parent.mkdir(parents=True, exist_ok=True)
            found._append(found._head())
            return found
        head = json.loads(lines[0])
        if head != found._head():
            raise ValueError(
                f"{path}: expected results of the sources {sources} and the seeds {seeds.start}:{seeds.stop} of the "
                f"search {search}, found {head}; name another file with --results"
            )
        for line in lines[1:]:
            found._know(json.loads(line))
        return found

    @classmethod
    def again(cls, path: Path) -> Results:
        """What a later hunt, of whichever sources, has left. Raises ValueError if it is not of this format."""
        head, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        if head["format"] != _FORMAT:
            raise ValueError(f"{path}: expected results in the format {_FORMAT}, found {head['format']}")
        found = cls(path, head["sources"], range(*head["seeds"]), head["search"])
        for line in lines:
            found._know(line)
        return found

    def add(self, row: Row) -> None:
        """Append a result to the file."""
        kind = {ProbedSeed: "seed", HuntResult: "hunt", ShownMutant: "tests"}[type(row)]
        self._append({"kind": kind, **row._asdict()})
        self._remember(row)

    def _head(self) -> dict[str, object]:
        seeds = [self.seeds.start, self.seeds.stop]
        return {"format": _FORMAT, "sources": self.sources, "seeds": seeds, "search": self.search}

    def _append(self, record: dict[str, object]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def _know(self, record: dict[str, object]) -> None:
        match record.pop("kind"):
            case "seed":
                known = record.pop("findings")
                assert isinstance(known, list)
                findings = tuple((layer, property_id) for layer, property_id in known)
                row = ProbedSeed(findings=findings, **record)  # type: ignore[arg-type]
                self._remember(row._replace(reached=tuple(row.reached), acted=tuple(row.acted)))
            case "hunt":
                self._remember(HuntResult(**record))  # type: ignore[arg-type]
            case "tests":
                self._remember(ShownMutant(**record))  # type: ignore[arg-type]

    def _remember(self, row: ProbedSeed | HuntResult | ShownMutant) -> None:
        if isinstance(row, ProbedSeed):
            self.probed[row.seed] = row
        elif isinstance(row, HuntResult):
            self.hunted[row.mutant] = row
        else:
            self.tested[row.mutant] = row
