"""A cell of a suite's matrix: a run on a real cluster, or a sweep of simulated ones, as a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from common.names import SpecError
from harness.spec import spec as specs
from harness.spec.spec import ACKS, ENVIRONMENTS, Spec
from harness.systems.factory import make_system, with_defaults
from nemesis.recipes import kinds_in
from simulation.faults import shared_kinds
from simulation.runs.pool import cores
from simulation.scenario import overrides
from simulation.scenario.configuration import Configuration

SIMULATION = "simulation"
_NAME_CHARACTERS = 60


class Skipped(Exception):
    """This machine, or this version of Harrow, cannot run a cell. The message says what is missing."""


@dataclass(frozen=True)
class Cell:
    """What to run. `settings` are those of `harrow run`, by field name; a simulation uses those that it supports."""

    number: int
    environment: str
    configuration: str
    faults: str  # as --faults takes them
    first_seed: int
    last_seed: int  # equal to the first, except in simulation, which sweeps
    settings: Mapping[str, Any]
    limit_s: float  # after which its process is ended
    anomaly: str | None = None  # of a canary: the anomaly that must be found

    @property
    def name(self) -> str:
        """Name of the cell's directory, and of its runs."""
        seeds = str(self.first_seed) if self.first_seed == self.last_seed else f"{self.first_seed}-{self.last_seed}"
        name = f"{self.number:03}-{self.environment}-{self.configuration}-{seeds}"
        return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)[:_NAME_CHARACTERS]

    @property
    def seeds(self) -> str:
        """The seeds, in words."""
        if self.first_seed == self.last_seed:
            return f"seed {self.first_seed}"
        return f"seeds {self.first_seed} to {self.last_seed}"

    @property
    def is_simulated(self) -> bool:
        """Whether the cell is a sweep of simulations."""
        return self.environment == SIMULATION


def spec_of(cell: Cell) -> Spec:
    """The specification of a run on a real cluster. Raises `SpecError`."""
    given = {key: value for key, value in cell.settings.items() if key != SIMULATION}
    given |= {"environment": cell.environment, "faults": cell.faults, "seed": cell.first_seed, "name": cell.name}
    return specs.resolve(with_defaults(given), cell.first_seed)


def check(cell: Cell) -> None:
    """Validate a cell's settings, regardless of the machine. Raises `SpecError`."""
    if cell.is_simulated:
        overrides.check_overrides(_simulated_settings(cell))
    elif cell.environment in ENVIRONMENTS:
        spec_of(cell)


def require_possible(cell: Cell) -> None:
    """Require that this machine can run the cell. Raises `Skipped`."""
    if cell.is_simulated:
        try:
            shared_kinds.chosen(cell.faults)
        except shared_kinds.NotSimulated as error:
            raise Skipped(str(error)) from error
        return
    if cell.environment not in ENVIRONMENTS:
        raise Skipped(f"there is no environment {cell.environment} in this Harrow")
    from harness.environments import possible_faults
    from harness.environments.base import EnvironmentFailed

    try:
        spec = spec_of(cell)
        system = make_system(spec)
        spec = possible_faults.expand_families(spec, system)
        possible_faults.refuse_impossible(spec, kinds_in(spec.faults), system)
    except (SpecError, EnvironmentFailed) as error:
        raise Skipped(str(error)) from error


def arguments(cell: Cell, directory: Path, beside: int = 1) -> Sequence[str]:
    """The arguments of `harrow` for this cell; it stores its runs in `directory`.

    Of `beside` sweeps that run at a time each gets its share of the cores.
    """
    if cell.is_simulated:
        words = ["sim", "--seeds", f"{cell.first_seed}:{cell.last_seed}", "--json", "--no-check", "--keep", "3"]
        if beside > 1:
            words += ["--jobs", str(max(1, cores() // beside))]
        return [*words, "--store", str(directory), *_simulated_words(cell)]
    return [*specs.words(spec_of(cell))[1:], "--no-check", "--store", str(directory)]


def command_line(cell: Cell) -> Sequence[str]:
    """The command that repeats this cell, for users."""
    if cell.is_simulated:
        return ["harrow", "sim", "--seeds", f"{cell.first_seed}:{cell.last_seed}", *_simulated_words(cell)]
    return specs.words(spec_of(cell)) if cell.environment in ENVIRONMENTS else ()


def _simulated_settings(cell: Cell) -> dict[str, object]:
    """The settings that the simulation supports. With the faults `all` each seed draws its own."""
    known = {field.name for field in fields(Configuration)}
    shared = {name: value for name, value in cell.settings.items() if name in known}
    if "acks" in shared:
        shared["acks"] = ACKS[str(shared["acks"])]
    if "flaws" in shared:
        shared["flaws"] = tuple(shared["flaws"])
    faults = shared_kinds.chosen(cell.faults, leave_out=True)
    if faults is not None:
        shared["faults"] = faults
    return {**shared, **cell.settings.get(SIMULATION, {})}


def _simulated_words(cell: Cell) -> Sequence[str]:
    """The flags of `harrow sim` for these settings."""
    words: list[str] = []
    for name, value in _simulated_settings(cell).items():
        if name == "generation":
            words += ["--generation", str(value)]
        elif name == "flaws" and isinstance(value, tuple):
            words += [word for flaw in value for word in ("--flaw", flaw)]
        else:
            text = ",".join(value) if isinstance(value, tuple) else str(value).lower()
            words += ["--set", f"{name}={text}"]
    return words
