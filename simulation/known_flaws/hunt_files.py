"""Loads and saves hunts, so that a search of hours can be interrupted and continued."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from broker.core.rules.flaws import FLAWS
from broker.core.rules.flaws.flaw import Flaw
from common.atomic_files import replacing
from simulation.engine.choices import FORMAT
from simulation.known_flaws.hunt import FirstFinding, Hunt, ShrunkSize
from simulation.runs.findings import Finding, Layer

CORRECT = "none"
"""The name of the correct build."""


def load(path: Path, wanted: Sequence[Flaw | None]) -> list[Hunt]:
    """The hunts for these builds: those in the file, and new ones. Raises ValueError for another format."""
    known = _known(path)
    return [known.get(_name(flaw), Hunt(flaw, 0, 0.0)) for flaw in wanted]


def save(path: Path, hunts: Sequence[Hunt]) -> None:
    """Write hunts atomically; those of other builds stay in the file."""
    everything = {**_known(path), **{_name(one.flaw): one for one in hunts}}
    data = {"format": FORMAT, "hunts": [_plain(one) for one in everything.values()]}
    with replacing(path) as unfinished:
        unfinished.write_text(json.dumps(data, indent=1), encoding="utf-8")


def _known(path: Path) -> Mapping[str, Hunt]:
    if not path.exists():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{path}: expected hunts of choice format {FORMAT}: their seeds mean something else now")
    return {_name(one.flaw): one for one in map(_hunt, data["hunts"])}


def _name(flaw: Flaw | None) -> str:
    return CORRECT if flaw is None else flaw.name


def _plain(hunted: Hunt) -> dict[str, object]:
    return {
        "flaw": _name(hunted.flaw),
        "seeds": hunted.seeds,
        "seconds": round(hunted.seconds, 1),
        "sights": {
            layer.value: [first_finding.seed, first_finding.finding.property_id, first_finding.finding.what]
            for layer, first_finding in hunted.first_findings.items()
        },
        "failing": hunted.failing,
        "small": hunted.small,
        "anomalies": hunted.anomalies,
        "scheduled": hunted.scheduled,
    }


def _hunt(data: Mapping[str, object]) -> Hunt:
    name, first_findings = str(data["flaw"]), data["sights"]
    assert isinstance(first_findings, dict)
    return Hunt(
        None if name == CORRECT else FLAWS[name],
        int(str(data["seeds"])),
        float(str(data["seconds"])),
        {
            Layer(layer): FirstFinding(seed, Finding(Layer(layer), property_id, what))
            for layer, (seed, property_id, what) in first_findings.items()
        },
        _tuple(data["failing"]),
        _tuple(data.get("anomalies")),
        _tuple(data.get("scheduled")),
        ShrunkSize(*_tuple(data["small"])) if data.get("small") else None,
    )


def _tuple(values: Any) -> tuple[Any, ...]:  # noqa: ANN401
    return tuple(values or ())
