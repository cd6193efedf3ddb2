"""Reads from a stored run of a real cluster what a search in the simulator starts from.

That is the incident to look for, the configuration as far as the simulator knows it, and the faults that struck around
the incident, as they were recorded: their real times and targets, whether a schedule, a trigger or a person chose them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.core.rules.flaws import FLAWS
from broker.core.rules.generations import GENERATIONS
from common.wording import FIRST_CONTROLLER
from history.reader import load_table
from incidents import Incident, diagnose
from incidents.evidence import Evidence
from nemesis.schedule import ScheduledFault
from nemesis.targets import FaultTarget
from simulation.faults.shared_kinds import SHARED

BEFORE_NS: Final = 45_000_000_000
"""Faults that ended longer than this before the incident are left out."""

AFTER_NS: Final = 5_000_000_000
"""So are those that began longer than this after it: samples show it late."""

FAULTS_MAX: Final = 12
"""The last so many faults are taken."""

NEAREST: Final[Mapping[str, str]] = {
    "crash-loop": "kill",
    "rolling-restart": "restart",
    "power-cut": "kill",
    "out-of-memory": "kill",
    "cpu-starvation": "pause",
    "majority-ring": "one-way",
    "bridge": "halves",
    "flapping": "isolate",
    "slow-network": "stalled-link",
    "packet-loss": "stalled-link",
    "packet-reordering": "stalled-link",
    "thin-network": "stalled-link",
    "lying-fsync": "page-cache-loss",
    "disk-rollback": "page-cache-loss",
    "file-loss": "page-cache-loss",
    "file-truncation": "page-cache-loss",
    "full-disk": "disk-error",
    "disk-stall": "slow-disk",
    "clock-strobe": "clock-jump",
    "clock-drift": "clock-jump",
}
"""Kind of real clusters → the one of the simulation that comes nearest. A power cut kills each of its targets."""

_LEADER: Final = re.compile(r"the leader of .*-(\d+)")
_PARTITIONS_MAX: Final = 4
_MS: Final = 1_000_000


class CannotLift(ValueError):
    """The run has nothing to look for, or nothing that the simulator knows. One line."""


class StruckNode(NamedTuple):
    """One fault on one node, as it was recorded, counted from the first fault."""

    entry: ScheduledFault
    """With the node as its target."""
    role: FaultTarget
    """The role for which the node was hit; the node itself if that is not known."""
    guilty: bool
    """Whether the incident's cause names the fault."""


@dataclass(frozen=True)
class RealRun:
    """What is looked for, and around what."""

    incident: Incident
    overrides: Mapping[str, object]
    """The configuration, as overrides of a simulation."""
    struck: tuple[StruckNode, ...]
    left_out: tuple[str, ...]
    """Kinds of fault that the simulation has nothing like."""


def read(directory: Path, *, number: int = 1, flaws: Sequence[str] = (), generation: str | None = None) -> RealRun:
    """Read a run that was checked; `number` counts its incidents that are violations, from 1, the gravest first.

    `flaws` and `generation` replace those of the run. Raises `CannotLift`.
    """
    evidence = Evidence(directory)
    if evidence.is_simulated:
        raise CannotLift("expected a run of a real cluster, found a simulation; see `harrow shrink`")
    incidents = diagnose(directory)
    violations = [incident for incident in incidents if not incident.within_contract]
    if not violations:
        found = "only what the contract allows" if incidents else "none"
        raise CannotLift(f"expected a run with an incident that violates the contract, found {found}")
    if number > len(violations):
        raise CannotLift(f"expected the number of an incident, 1 to {len(violations)}, found {number}")
    incident = violations[number - 1]
    struck, left_out = _struck(directory, incident)
    return RealRun(incident, _overrides(evidence, flaws, generation, directory), struck, left_out)


def _overrides(
    evidence: Evidence, flaws: Sequence[str], generation: str | None, directory: Path
) -> Mapping[str, object]:
    settings = evidence.settings
    specification = _json(settings.get("spec"))
    brokers = settings.get("brokers") or 3
    given: dict[str, object] = {
        "generation": generation or _generation(settings, directory),
        "flaws": tuple(flaws or (one for one in settings.get("flaws") or () if one in FLAWS)),
        "brokers": brokers,
        "controllers": settings.get("controllers") or 1,
        "combined": bool(specification.get("combined")),
        "partitions": min(_PARTITIONS_MAX, _whole(specification.get("partitions"), 2)),
        "replication_factor": min(brokers, settings.get("replication_factor") or 3),
        "min_insync_replicas": settings.get("min_insync_replicas") or 1,
        "acks": -1 if settings.get("acks") is None else settings["acks"],
        "idempotence": bool(settings.get("idempotence")),
        "unclean_election": bool(settings.get("unclean_election")),
        **_flush(str(specification.get("flush"))),
        "group_members": 2 if specification.get("workload") == "groups" else 0,
    }
    return {**given, **_CALM}


_CALM: Final[Mapping[str, object]] = {
    "unclean_recovery": "Balanced",
    "lossy_budget": 1,
    "side_topics": False,
    "keyed_topic": False,
    "racks": 0,
    "changing_settings": False,
    "compression": "none",
    "retention_ms": 0,
    "retention_bytes": 0,
    "log_append_time": False,
    "clock_error_ms": 0,
    "producer_expiration_ms": 0,
    "log_directories": 1,
    "fetch_bytes": 0,
    "examination": "",
    "min_isr_of_brokers": 0,
    "sole_survivor": False,
}
"""What no real run has, or all have alike."""


def _generation(settings: Mapping[str, Any], directory: Path) -> str:
    """Return the protocol version; of another system that with ELR (KIP-966) if its samples show such sets."""
    if settings.get("system") in ("harrow", None) and settings.get("generation") in GENERATIONS:
        return str(settings["generation"])
    elr = load_table(directory, "cluster", ("elr",)).table.column("elr")
    return "K5" if any(elr.to_pylist()) else "K3"


def _flush(policy: str) -> Mapping[str, object]:
    number = re.fullmatch(r"(\d+)(ms)?", policy)
    messages = 1 if policy == "every-write" else int(number[1]) if number and not number[2] else 0
    return {"flush_messages": messages, "flush_ms": int(number[1]) if number and number[2] else 0}


# --- faults ----------------------------------------------------------------------------------------------------------


def _struck(directory: Path, incident: Incident) -> tuple[tuple[StruckNode, ...], tuple[str, ...]]:
    """The faults around the incident, in the order of time, and the kinds that the simulation lacks."""
    guilty = {number for cause in incident.causes for number in cause.faults}
    rows = [
        row
        for row in load_table(directory, "faults").table.to_pylist()
        if row["took_hold"] and row["started_ns"] is not None and row["kind"] is not None
        and (row["fault"] in guilty or _is_near(row, incident.at_ns))
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["started_ns"], row["fault"] or 0))
    lacking = {row["kind"] for row in rows if NEAREST.get(row["kind"], row["kind"]) not in SHARED}
    rows = [row for row in rows if row["kind"] not in lacking][-FAULTS_MAX:]
    begun_ns = rows[0]["started_ns"] if rows else 0
    found = [one for row in rows for one in _nodes_of(row, begun_ns, guilty)]
    return tuple(found), tuple(sorted(lacking))


def _is_near(row: Mapping[str, Any], at_ns: int | None) -> bool:
    if at_ns is None:
        return True
    ended_ns = at_ns if row["ended_ns"] is None else row["ended_ns"]
    return bool(ended_ns >= at_ns - BEFORE_NS and row["started_ns"] <= at_ns + AFTER_NS)


def _nodes_of(row: Mapping[str, Any], begun_ns: int, guilty: set[int]) -> list[StruckNode]:
    """One entry for each node that a fault hit; a fault that cuts a set of nodes off is one of its first node."""
    kind = NEAREST.get(row["kind"], row["kind"])
    parameters = {name: str(value) for name, value in _json(row["parameters"]).items()}
    targets = sorted(target for target in row["targets"] or () if target) or [1]
    at_ms = (row["started_ns"] - begun_ns) // _MS
    lasts_ms = max(1, (row["ended_ns"] - row["started_ns"]) // _MS) if row["ended_ns"] else _whole(
        parameters.get("duration_ms"), 5_000
    )  # fmt: skip
    leader = _LEADER.fullmatch(parameters.get("role", ""))
    found = []
    for node in targets[:1] if kind == "halves" else targets:
        own = (
            FaultTarget("controller", pick=node - FIRST_CONTROLLER)
            if node >= FIRST_CONTROLLER
            else FaultTarget("broker", pick=node - 1)
        )
        role = own
        if leader is not None and len(targets) == 1:
            role = FaultTarget("leader", int(leader[1]))
        elif parameters.get("role") == "the active controller":
            role = FaultTarget("active-controller")
        entry = ScheduledFault(row["fault"] or 0, at_ms, kind, own, lasts_ms, parameters)
        found.append(StruckNode(entry, role, row["fault"] in guilty))
    return found


def _whole(found: object, otherwise: int) -> int:
    return int(found) if isinstance(found, int | str) and str(found).isdigit() and int(found) else otherwise


def _json(text: object) -> Mapping[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
