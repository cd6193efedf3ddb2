"""Makes descriptive names for runs, for their directories and reports: `local-log-usual`, `simulation-K3`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.spec.spec import OWN_SYSTEM, Spec
from nemesis.faults import USUAL

_CHARACTERS_MAX: Final = 100
_WORDS_MAX: Final = 3


def of_run(spec: Spec, system: str = OWN_SYSTEM, schedule: str = "") -> str:
    """Name a run of a real cluster: its own name, or system, environment, workload, faults (a schedule's name), flaws.

    `spec` is as the user gave it: families of faults are not resolved yet.
    """
    if spec.name:
        return spec.name
    foreign = [] if system == OWN_SYSTEM else [system]
    environment = "vms" if spec.vms else spec.environment
    return plain([*foreign, environment, spec.workload, schedule or _faults(spec.faults), *_several(spec.flaws)])


def of_simulation(overrides: Mapping[str, object]) -> str:
    """Name a simulation by the settings that override what its seed draws."""
    generation = overrides.get("generation")
    flaws = overrides.get("flaws", ())
    named = [str(flaw) for flaw in flaws] if isinstance(flaws, list | tuple) else [str(flaws)]
    return plain(["simulation", *([str(generation)] if generation else []), *_several(named)])


def plain(words: Sequence[str]) -> str:
    """Join words with dashes, in characters that need no quoting in a shell."""
    text = "-".join(word for word in words if word)
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-+") else "-" for letter in text)[
        :_CHARACTERS_MAX
    ]


def _faults(faults: Sequence[str]) -> str:
    if not faults:
        return "no-faults"
    if set(faults) >= set(USUAL):
        faults = ["usual", *(fault for fault in faults if fault not in USUAL)]
    return "+".join(faults) if len(faults) <= _WORDS_MAX else f"{len(faults)}-faults"


def _several(words: Sequence[str]) -> list[str]:
    """The first word, and the number of the others."""
    return [words[0] + (f"+{len(words) - 1}" if len(words) > 1 else "")] if words else []
