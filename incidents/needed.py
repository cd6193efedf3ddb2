"""Reads and writes what simulating a failure again, without some of its faults, has shown: which of them it needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

FILE_NAME = "needed.json"
SMALLEST_NAME = "smallest.json"
FEW = 3
"""As many faults as this may be needed together, though they do not suffice with other random choices."""


@dataclass(frozen=True)
class Needed:
    """The faults of a simulation that its failure needs, by their numbers, and whether it needs the planted flaws."""

    needed: tuple[int, ...]
    """With these and the untested ones alone the failure occurs; without any one of these it did not."""
    not_needed: tuple[int, ...]
    """Those of the others that had begun by then: without them it occurs, too."""
    untested: tuple[int, ...]
    """For these there was no time."""
    redraws: int
    """How often each was left out with other random choices, besides once with the same ones."""
    simulations: int
    parts: tuple[tuple[int, ...], ...] = ()
    """Those of the needed faults that are one: a recipe's own number, then those of the faults that it consists of."""
    again: int | None = None
    """In how many of `redraws` simulations it occurred with the needed faults alone, and still other random choices.

    None if that was not tried."""
    without_flaws: bool | None = None
    """Whether anything fails without the planted flaws; None if there are none, or if that was not tried."""

    @property
    def inside(self) -> frozenset[int]:
        """Those that are parts of a recipe, and not faults of their own."""
        return frozenset(number for _, *rest in self.parts for number in rest)

    @property
    def own(self) -> tuple[int, ...]:
        """The needed ones that are faults of their own, and not parts of a recipe."""
        return tuple(number for number in self.needed if number not in self.inside)

    @property
    def is_chance(self) -> bool:
        """Whether leaving faults out has not told which of them matter: with any one gone, chance does something else.

        So it is where many are left, and with other random choices all of them together did not suffice either.
        """
        return self.again == 0 and len(self.own) > FEW


def write(directory: Path, needed: Needed) -> None:
    """Write the file of a run's directory."""
    (directory / FILE_NAME).write_text(json.dumps(asdict(needed), indent=2) + "\n", encoding="utf-8")


def read(directory: Path) -> Needed | None:
    """Read it; None if there is none, or nothing that can be understood."""
    try:
        return _parsed(json.loads((directory / FILE_NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


class ShrunkRun(NamedTuple):
    """The same failure as that of a run, shrunk."""

    directory: Path
    was_cut_short: bool
    """Whether the shrinking was ended, by its time limit or by a signal, before nothing more could be left out."""


def write_smallest(directory: Path, name: str, *, was_cut_short: bool) -> None:
    """Note in a run's directory the run beside it that is the same failure, shrunk; see `ShrunkRun`."""
    noted = {"run": name, "was_cut_short": was_cut_short}
    (directory / SMALLEST_NAME).write_text(json.dumps(noted) + "\n", encoding="utf-8")


def smallest(directory: Path) -> ShrunkRun | None:
    """Return what a run's failure was shrunk to; None if there is none, or no more."""
    try:
        noted = json.loads((directory / SMALLEST_NAME).read_text(encoding="utf-8"))
        name, was_cut_short = noted["run"], noted.get("was_cut_short", False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name or "\0" in name:
        return None
    return ShrunkRun(found, was_cut_short is True) if (found := directory.parent / name).is_dir() else None


def _parsed(data: Mapping[str, Any]) -> Needed:
    numbers = {name: _numbers(data[name]) for name in ("needed", "not_needed", "untested")}
    without_flaws = data["without_flaws"]
    if without_flaws is not None and not isinstance(without_flaws, bool):
        raise ValueError(without_flaws)
    again = data.get("again")
    if again is not None and type(again) is not int:
        raise ValueError(again)
    parts = data.get("parts", [])
    if not isinstance(parts, list):
        raise ValueError(parts)
    return Needed(
        **numbers,
        redraws=int(data["redraws"]),
        simulations=int(data["simulations"]),
        parts=tuple(_numbers(group) for group in parts),
        again=again,
        without_flaws=without_flaws,
    )


def _numbers(data: Any) -> tuple[int, ...]:  # noqa: ANN401 (anything may stand in a file)
    if not isinstance(data, list) or not all(type(number) is int for number in data):
        raise ValueError(data)
    return tuple(data)
