"""Searches: which of all possible simulations the seeds are spent on. `usual` takes each seed as it is drawn.

The other searches draw on, behind everything that a seed draws anyway, and replace parts of its configuration. So a
seed is one simulation for each search, whatever has been simulated before; it can be swept on all cores or on Spark,
stored, replayed and shrunk like any other. `docs/reference/search.md` has what each finds in the same processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from common.names import SpecError, unknown
from simulation.engine.choices import ChoiceSequence, Stream
from simulation.scenario.configuration import (
    DIRECTORY_FAULTS,
    LATER_RECIPES,
    RECIPES,
    Configuration,
    draw_configuration,
    draw_directories,
    draw_examination,
    draw_fetch_bytes,
    draw_keyed_topic,
    draw_later,
    draw_racks,
    draw_recipes,
)

Search = Callable[[Stream, Configuration], Configuration]
"""Draws on from the stream of the configuration; returns what replaces the configuration that was drawn so far."""

FOCUSED_KINDS = (
    *(name for name in RECIPES if name not in LATER_RECIPES),
    "kill",
    "page-cache-loss",
    "reassignment",
    "moved-leader",
    "stalled-link",
    "late-metadata",
    "late-connection",
    "restart",
    "clock-jump",
    "slow-disk",
)
"""Recipes, and the faults that recipes are most likely to meet something of: lost leaders, late messages, moves."""


_DENSE_INTERVAL_MS = 1_000


def usual(_stream: Stream, drawn: Configuration) -> Configuration:
    """Each seed as it is drawn."""
    return drawn


def dense(_stream: Stream, drawn: Configuration) -> Configuration:
    """A fault every second, of the kinds that the seed has, and no sole-survivor phase.

    So a simulation has two to six times as many faults, and takes two thirds of the time: the phase is a third of what
    such a simulation costs, and observers find most of what they find before it.
    """
    return replace(drawn, fault_interval_ms=_DENSE_INTERVAL_MS, sole_survivor=False)


def focused(stream: Stream, drawn: Configuration) -> Configuration:
    """Few kinds of fault, most of them recipes, one soon after the other, and no sole-survivor phase.

    Four, eight or twelve kinds; 0.5, 1 or 2 seconds between faults on average.
    """
    interval_ms = stream.pick("focused interval", (2_000, 1_000, 500))
    duration_ms = stream.pick("focused duration", (5_000, 2_000, 1_000, 500))
    wanted = stream.pick("focused kinds", (4, 8, 12))
    rest = list(FOCUSED_KINDS)
    chosen = [rest.pop(stream.draw("focused kind", len(rest))) for _ in range(wanted)]
    return replace(
        drawn,
        faults=(
            *(kind for kind in FOCUSED_KINDS if kind in chosen),
            *(kind for kind in drawn.faults if kind in LATER_RECIPES),
        ),
        fault_interval_ms=interval_ms,
        fault_duration_ms=duration_ms,
        sole_survivor=False,
    )


def alone(stream: Stream, drawn: Configuration) -> Configuration:
    """One recipe and nothing else, every two, four or eight seconds: no other fault hides or ends what it begins.

    Half of the seeds send metadata one change at a time, which some recipes need.
    """
    kind = RECIPES[stream.draw("the only recipe", len(RECIPES))]
    return replace(
        drawn,
        faults=(kind,),
        fault_interval_ms=stream.pick("interval of the only recipe", (4_000, 2_000, 8_000)),
        metadata_fetch_bytes=(drawn.metadata_fetch_bytes, 1)[stream.draw("one change at a time for it", 2)],
        sole_survivor=False,
    )


def mixed(stream: Stream, drawn: Configuration) -> Configuration:
    """A third of the seeds each as in `dense`, `focused` and `alone`: each finds what the others hardly ever find."""
    return (dense, focused, alone)[stream.draw("dense, focused or alone", 3)](stream, drawn)


USUAL = "usual"

SEARCHES: Mapping[str, Search] = {
    USUAL: usual,
    "dense": dense,
    "focused": focused,
    "alone": alone,
    "mixed": mixed,
}
"""Name of a search -> what it makes of a seed."""


def check_search(name: str) -> None:
    """Check that a search has this name. Raises `SpecError`."""
    if name not in SEARCHES:
        raise SpecError(f"search: {unknown(name, SEARCHES, 'the name of a search')}")


def configuration_of(choices: ChoiceSequence, overrides: Mapping[str, object] | None = None) -> Configuration:
    """Draw the configuration of a seed for the search that the overrides name. They replace parts after all draws.

    Where brokers have several log directories these fail one by one, unless the overrides say which faults there are.
    """
    given = overrides or {}
    stream, recipes = choices["configuration"], choices["recipes"]
    drawn = draw_recipes(recipes, draw_configuration(stream))
    searched = SEARCHES[str(given.get("search", USUAL))](stream, drawn)
    later = draw_later(stream, searched)
    several = replace(later, log_directories=draw_directories(choices["directories"]))
    limited = replace(several, fetch_bytes=draw_fetch_bytes(choices["traffic"]))
    examined = replace(limited, examination=draw_examination(choices["examination"]))
    beside = replace(examined, keyed_topic=draw_keyed_topic(choices["compaction"]))
    placed = replace(beside, racks=draw_racks(choices["racks"]))
    configuration = replace(placed, **given)  # type: ignore[arg-type]
    if configuration.log_directories > 1 and "faults" not in given:
        return replace(configuration, faults=(*configuration.faults, *DIRECTORY_FAULTS))
    return configuration
