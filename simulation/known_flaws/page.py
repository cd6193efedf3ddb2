"""The zoo as a table: for the terminal, and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.core.rules.flaws.flaw import Visibility
from simulation.exhaustive.models import HUNTS
from simulation.known_flaws.hunt import OBSERVED, Hunt
from simulation.known_flaws.visibility import difference, is_felt, only_by_schedule
from simulation.runs.findings import Layer

NOTHING = "-"

HEADINGS = (
    "id",
    "flaw",
    "breaks",
    "visible",
    "seeds",
    "observer",
    "logs",
    "history",
    "checkers",
    "checkers, by schedule",
    "smallest",
    "directed",
    "exhaustive",
)

_PAGE = """\
# The zoo

Every known flaw of the protocol, put into the simulated broker one at a time, and what `harrow zoo` made of it. A flaw
is one rule taken out; `harrow flaws` lists them. This page was written by

    {command}

Notes bring along what earlier runs have found.

- *visible*: who can know of it by the zoo's own account: clients (BB), clients once the bad candidate leads (BB-late),
  administration (BB-adm), only missing progress (LIVE), only who looks into nodes (WB)
- *observer*: the property that the observer saw broken (or a crash, or missing liveness), and with which seed
- *logs*: whether the replicas' final logs differed, and with which seed
- *history*: the anomaly that a plain look at the clients' history shows, and with which seed
- *checkers*: anomalies that the checkers on Spark found in the clients' histories of up to {histories} failing seeds
- *checkers, by schedule*: what they found in the history of its directed schedule, and not in that of the correct build
- *smallest*: faults and sends of the shrunk tape, and its steps by the measure of a model (`model_steps`)
- *seeds*: how many were tried; a hunt ends soon after it has found its flaw
- *directed*: layers that find it when its directed schedule is played, which the correct build passes
- *exhaustive*: whether [exhaustive search](exhaustive.md) finds it too

{summary}

{table}

## What random seeds did not find

{missed}

## Where the checkers need more than a seed

Flaws that clients can feel, and in whose failing seeds the checkers on Spark have found nothing: the observer sees a
broken rule at once, clients only when it has done harm. A directed schedule goes on until it has.

{later}

## What clients see, and what the catalogue says

The catalogue says of each flaw who can know of it. Clients here know by what they wrote and read in a seed, or in the
flaw's schedule. Where the two differ:

{differences}
"""


class Control(NamedTuple):
    """The correct build on the same seeds."""

    seeds: int
    failed: int


def row(hunted: Hunt) -> tuple[str, ...]:
    """One line of the table, without its markup."""
    flaw = hunted.flaw
    assert flaw is not None
    small = hunted.small
    return (
        flaw.number,
        flaw.name,
        ", ".join(flaw.properties),
        flaw.visible.value,
        f"{hunted.seeds:,}",
        _sight(hunted, OBSERVED),
        _sight(hunted, (Layer.LOGS,)),
        _sight(hunted, (Layer.HISTORY,)),
        ", ".join(hunted.anomalies) or NOTHING,
        ", ".join(hunted.scheduled) or NOTHING,
        f"{small.faults} / {small.sends} / {small.transitions}" if small else NOTHING,
        ", ".join(hunted.directed) or NOTHING,
        "yes" if flaw.name in HUNTS else NOTHING,
    )


def is_explained(hunted: Hunt) -> bool:
    """Whether a flaw was found, or nothing can find it because of a rule that masks it."""
    flaw = hunted.flaw
    return hunted.found or bool(hunted.directed) or (flaw is not None and (flaw.name in HUNTS or bool(flaw.masked_by)))


def summary(hunts: Sequence[Hunt], control: Control) -> str:
    """One sentence for each result."""
    flaws = [one for one in hunts if one.flaw is not None]
    found = [one for one in flaws if one.found]
    tried = sum(one.seeds > 0 for one in flaws)
    either = [one for one in flaws if one.found or one.directed or (one.flaw and one.flaw.name in HUNTS)]
    felt = [one for one in flaws if one.flaw and one.flaw.visible in (Visibility.DIRECT, Visibility.LATE)]
    seen = [one for one in felt if is_felt(one)]
    checked = [one for one in felt if one.anomalies or one.scheduled]
    return (
        f"{len(found)} of {len(flaws)} flaws found by random seeds ({tried} were tried), "
        f"{len(either)} by these, a directed schedule or "
        f"exhaustive search; of {len(felt)} that clients can feel, clients have seen {len(seen)}, "
        f"and the checkers on Spark {len(checked)}. "
        f"The correct build: {control.failed} of {control.seeds:,} seeds failed."
    )


def page(hunts: Sequence[Hunt], control: Control, command: str, histories: int) -> str:
    """The page."""
    flaws = [one for one in hunts if one.flaw is not None]
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    lines += [f"| {' | '.join(row(one))} |" for one in flaws]
    missed = [f"- {_missed(one)}" for one in flaws if not one.found]
    later = [f"- {told}" for one in flaws if (told := only_by_schedule(one)) is not None]
    differences = [f"- {told}" for one in flaws if (told := difference(one)) is not None]
    return _PAGE.format(
        command=command,
        histories=histories,
        summary=summary(hunts, control),
        table="\n".join(lines),
        missed="\n".join(missed) or "Nothing.",
        later="\n".join(later) or "None.",
        differences="\n".join(differences) or "Nowhere.",
    )


def _missed(hunted: Hunt) -> str:
    flaw = hunted.flaw
    assert flaw is not None
    ways = [f"by its directed schedule ({', '.join(hunted.directed)})"] if hunted.directed else []
    ways += ["by exhaustive search"] if flaw.name in HUNTS else []
    told = f": found {' and '.join(ways)}" if ways else ": found by no search alone"
    masked = f"; masked by {flaw.masked_by}" if flaw.masked_by else ""
    tried = f"{hunted.seeds:,} seeds" if hunted.seeds else "not tried"
    return f"{flaw.number} `{flaw.name}` ({tried}){told}{masked}"


def _sight(hunted: Hunt, layers: Sequence[Layer]) -> str:
    sights = [hunted.sights[layer] for layer in layers if layer in hunted.sights]
    if not sights:
        return NOTHING
    first = min(sights, key=lambda sight: sight.seed)
    return f"{first.finding.property_id} @{first.seed}"
