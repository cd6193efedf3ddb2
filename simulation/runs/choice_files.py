"""Reads and writes choice files: all that is needed to repeat one simulation, in JSON that a person can edit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.names import unknown
from nemesis.targets import CONDITIONS, is_trigger
from simulation.engine.choices import STREAMS
from simulation.scenario.case import Case
from simulation.scenario.configuration import FAULTS, Configuration, SimulatedFault
from simulation.scenario.overrides import check_configuration

FORMAT = 3
"""Version of these files. Format 2 differs only in names, and is read as well."""

KIND = "choices"
"""The value of the key `harrow` in such a file."""

FILE_NAME = "choices.json"
"""The name of such a file in a stored run."""

_FORMAT_2_KIND, _FORMAT_2_FILE_NAME = "tape", "tape.json"

_RENAMED_SETTINGS = {"squeeze": "sole_survivor"}
"""Settings by their names in format 2."""

_RENAMED_FAULTS = {
    "lossy-kill": "page-cache-loss",
    "controllers-from-brokers": "brokers-from-controllers",
    "break-connections": "connection-resets",
    "slow-fsync": "slow-disk",
    "failing-disk": "disk-error",
    "reassign": "reassignment",
    "elect-preferred": "preferred-election",
    "stall": "stalled-link",
    "move-leader": "moved-leader",
    "elect-unclean": "unclean-election",
    "shrink-replicas": "shrunk-replicas",
    "cancel-reassignment": "cancelled-reassignment",
    "add-partition": "added-partition",
    "min-isr": "same-min-isr",
    "change-min-isr": "changed-min-isr",
    "delete-records": "deleted-records",
}
"""Kinds of fault by their names in format 2, before the simulation shared those of real clusters."""


class ChoiceFileError(Exception):
    """A file that is no choice file of this format. One line: where, what was expected, what was found."""


@dataclass(frozen=True)
class ChoiceFile:
    """One simulation, and its result."""

    seed: int | None
    """The seed that the choices came from; those of a shrunk file differ from it."""
    configuration: Configuration
    faults: tuple[SimulatedFault, ...]
    streams: Mapping[str, Sequence[int]]
    property_id: str | None
    """The property that is broken, or the anomaly; None if nothing was found."""
    failure: str | None
    digest: str
    happens: tuple[str, ...] = ()
    """The trace, for people; it is never parsed."""

    def case(self) -> Case:
        """The case to simulate."""
        return Case(self.seed, vars(self.configuration), self.streams, self.faults)

    def dumps(self) -> str:
        """The file's text. Faults and streams take one line each."""
        lines = {
            "harrow": KIND,
            "format": FORMAT,
            "seed": self.seed,
            "property": self.property_id,
            "failure": self.failure,
            "hash": self.digest,
            "configuration": self.configuration.to_json(),
        }
        parts = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in lines.items()]
        parts.append(_listed("faults", [fault.to_json() for fault in self.faults]))
        streams = [f"    {json.dumps(name)}: {json.dumps(list(values))}" for name, values in self.streams.items()]
        parts.append('  "streams": {\n' + ",\n".join(streams) + "\n  }")
        parts.append(_listed("happens", self.happens))
        return "{\n" + ",\n".join(parts) + "\n}\n"


def is_choice_file(data: object) -> bool:
    """Whether JSON data is a choice file, of any format."""
    return isinstance(data, dict) and data.get("harrow") in (KIND, _FORMAT_2_KIND)


def file_in(run: Path) -> Path:
    """The path of the choice file in a stored run; the run of a real cluster has no such file."""
    old = run / _FORMAT_2_FILE_NAME
    return old if old.is_file() else run / FILE_NAME


def load(path: Path) -> ChoiceFile:
    """Read a file. Raises `ChoiceFileError`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ChoiceFileError(f"{path}: expected a file of JSON, found: {error}") from error
    return parse(data, str(path))


def parse(data: object, where: str) -> ChoiceFile:
    """Parse a file's data. Raises `ChoiceFileError`."""
    if not isinstance(data, dict) or not is_choice_file(data):
        raise ChoiceFileError(f'{where}: expected a choice file ("harrow": "{KIND}"), found something else')
    if data.get("format") == 2:
        data = _from_format_2(data)
    if data.get("format") != FORMAT:
        raise ChoiceFileError(
            f"{where}: expected a choice file of format {FORMAT}, found format {data.get('format')!r}: "
            "its numbers have another meaning in this version; find the failure again from its seed"
        )
    try:
        configuration = Configuration.from_json(data["configuration"])
        check_configuration(configuration)
        streams = {str(name): _numbers(name, values) for name, values in data["streams"].items()}
        faults = tuple(_fault(number, entry) for number, entry in enumerate(data.get("faults", ()), 1))
        return ChoiceFile(
            data.get("seed"),
            configuration,
            faults,
            streams,
            data.get("property"),
            data.get("failure"),
            str(data.get("hash", "")),
            tuple(str(line) for line in data.get("happens", ())),
        )
    except KeyError as error:
        raise ChoiceFileError(f"{where}: expected the key {error}, found none") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise ChoiceFileError(f"{where}: {error}") from error


def _from_format_2(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same file with the present names. What is malformed stays as it is, to be reported by the parser."""
    changed = {**data, "format": FORMAT}
    if isinstance(data.get("configuration"), dict):
        settings = {_RENAMED_SETTINGS.get(key, key): value for key, value in data["configuration"].items()}
        kinds = settings.get("faults")
        if isinstance(kinds, list):
            settings["faults"] = [_RENAMED_FAULTS.get(kind, kind) for kind in kinds if isinstance(kind, str)]
        changed["configuration"] = settings
    if isinstance(data.get("faults"), list):
        changed["faults"] = [
            {**fault, "kind": _RENAMED_FAULTS.get(fault["kind"], fault["kind"])}
            if isinstance(fault, dict) and isinstance(fault.get("kind"), str)
            else fault
            for fault in data["faults"]
        ]
    return changed


def _numbers(name: str, values: Any) -> tuple[int, ...]:  # noqa: ANN401
    if name not in STREAMS:
        raise ValueError(f"streams: {unknown(name, STREAMS)}")
    for value in values:
        if not isinstance(value, int) or value < 0:
            raise ValueError(f"stream {name}: expected whole numbers from 0 on, found {value!r}")
    return tuple(values)


def _fault(number: int, entry: Any) -> SimulatedFault:  # noqa: ANN401
    if not isinstance(entry, dict) or set(entry) | {"when"} != set(SimulatedFault._fields):
        raise ValueError(f"fault {number}: expected the keys {', '.join(SimulatedFault._fields)}, found {entry!r}")
    if entry["kind"] not in FAULTS:
        raise ValueError(f"fault {number}: {unknown(entry['kind'], FAULTS, 'a fault of the simulation')}")
    if "when" in entry and not is_trigger(entry["when"]):
        raise ValueError(
            f"fault {number}: when: expected a condition ({', '.join(CONDITIONS)}), found {entry['when']!r}"
        )
    for key in set(SimulatedFault._fields) - {"kind", "when"}:
        if not isinstance(entry[key], int) or entry[key] < 0:
            raise ValueError(f"fault {number}: {key}: expected a whole number from 0 on, found {entry[key]!r}")
    return SimulatedFault.from_json(entry)


def _listed(key: str, rows: Sequence[object]) -> str:
    if not rows:
        return f"  {json.dumps(key)}: []"
    return f"  {json.dumps(key)}: [\n" + ",\n".join(f"    {json.dumps(row)}" for row in rows) + "\n  ]"
