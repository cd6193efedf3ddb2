"""Joins a partition that did not recover with the divergence that keeps one of its replicas out of the ISR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from common.wording import partition_name
from incidents.groups import Group, is_allowed, partitions_of
from incidents.model import Cause, Span, where
from incidents.rows import Row, details_of


def outages_united(groups: Sequence[Group]) -> list[Group]:
    """Make one group of an outage and of the divergence that keeps a replica out: one cause, told once.

    A violation is not hidden behind what is within the contract, which then becomes a part of the outage.
    """
    found = list(groups)
    for outage in filter(_is_outage, groups):
        divergence = next((one for one in found if one is not outage and _keeps_out(one, outage)), None)
        if divergence is None:
            continue
        if is_allowed(divergence):
            host, guest = outage, divergence
            also = [_differing(outage, divergence), *_spoken(divergence)]
            outage.causes = (_with_faults_of(outage, divergence),)
        else:
            host, guest = divergence, outage
            also = [f"Later {_places(outage)} did not recover: {outage.causes[0].sentence}.", *_spoken(outage)]
        host.rows += guest.rows
        host.also += also
        found.remove(guest)
    return found


def _is_outage(group: Group) -> bool:
    """Whether all rows are of an ISR that stayed small because of one known replica."""
    is_known = len(group.causes) == 1 and group.causes[0].kind == "no-progress" and group.causes[0].node is not None
    return is_known and bool(group.rows) and all(row["anomaly"] == "unavailable" for row in group.rows)


def _keeps_out(group: Group, outage: Group) -> bool:
    """Whether the replica that stays out holds other records than another one, in each partition of the outage."""
    return not group.findings and partitions_of(outage.rows) <= partitions_of(_held_apart(group, outage))


def _held_apart(group: Group, outage: Group) -> list[Row]:
    """The divergences of the outage's partitions in which its replica is not of the others' opinion."""
    places, kept_out = partitions_of(outage.rows), outage.causes[0].node
    return [
        row
        for row in group.rows
        if row["anomaly"] == "divergent-replicas"
        and (row["topic"], row["partition"]) in places
        and _stands_alone(row, kept_out)
    ]


def _stands_alone(row: Row, broker: int | None) -> bool:
    replicas = details_of(row).get("replicas")
    known = [one for one in replicas if isinstance(one, dict)] if isinstance(replicas, list) else []
    mine = [one.get("value") for one in known if one.get("broker") == broker]
    others = [one.get("value") for one in known if one.get("broker") != broker]
    return bool(mine) and bool(others) and mine[0] not in others


def _differing(outage: Group, divergence: Group) -> str:
    """Say where the replica that stays out holds other records, and that this alone would be allowed."""
    offsets: dict[tuple[str, int], list[int]] = {}
    for row in _held_apart(divergence, outage):
        offsets.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    spans = [Span(*place, min(known), max(known)) for place, known in sorted(offsets.items())]
    return (
        f"Broker {outage.causes[0].node} holds other records than the others at {where(spans)}, which by itself is"
        " within the contract here."
    )


def _with_faults_of(outage: Group, divergence: Group) -> Cause:
    own, others = outage.causes[0], divergence.causes if len(divergence.causes) == 1 else ()
    return replace(own, faults=tuple(dict.fromkeys((*own.faults, *(one for cause in others for one in cause.faults)))))


def _spoken(group: Group) -> tuple[str, ...]:
    return group.causes[0].evidence if len(group.causes) == 1 else ()


def _places(outage: Group) -> str:
    return ", ".join(partition_name(*place) for place in sorted(partitions_of(outage.rows)))
