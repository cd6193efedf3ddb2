"""Reads the hooks of a system definition: the user's own commands that hurt and heal a node of an existing cluster.

A cluster that Harrow did not start (`--bootstrap`) is in its user's hands: faults act on it through these commands
alone (docs/guide/your-own-cluster.md). A fault is possible where both its hooks are given, one that hurts and one that
heals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.spec.toml_table import Table

Command = tuple[str, ...]

KILL, START, STOP, PAUSE, RESUME, CUT_OFF, HEAL = "kill", "start", "stop", "pause", "resume", "cut-off", "heal"

HEALS: Final[Mapping[str, str]] = {KILL: START, STOP: START, PAUSE: RESUME, CUT_OFF: HEAL}
"""Hook that hurts a node → hook that heals it."""

_NAMES: Final = (*HEALS, *dict.fromkeys(HEALS.values()))

_FAULTS: Final[Mapping[str, str]] = {
    "kill": KILL,
    "power-cut": KILL,
    "pause": PAUSE,
    "isolate": CUT_OFF,
    "restart": STOP,
    "rolling-restart": STOP,
}
"""Kind of fault → the hook that it needs. A crash loop is left out: a hook takes longer than its turns."""


@dataclass(frozen=True)
class Hook:
    """One thing that can be done to a node. Texts are templates."""

    command: Command
    verify: Command | None = None  # ends with status 0 once it has taken effect; None: asked over the protocol
    within: int = 30  # seconds, for the command, and again for its effect


@dataclass(frozen=True)
class Hooks:
    """The hooks of a definition by name; for each that hurts, the one that heals is there, too."""

    by_name: Mapping[str, Hook]

    @property
    def faults(self) -> frozenset[str]:
        """The kinds of fault that these hooks can inject."""
        return frozenset(fault for fault, hook in _FAULTS.items() if hook in self.by_name)

    @property
    def templates(self) -> list[str]:
        """All templates."""
        return [word for hook in self.by_name.values() for word in (*hook.command, *(hook.verify or ()))]


NO_HOOKS: Final = Hooks({})


def missing_for(fault: str) -> str:
    """Say which hooks a kind of fault needs; for a kind that no hook can inject, that there is none."""
    hook = _FAULTS.get(fault)
    return "no hook can inject it" if hook is None else f"it needs the hooks {hook} and {HEALS[hook]}"


def read_hooks(table: Table | None) -> Hooks:
    """Read the table `[hooks]` of a definition. Raises `SpecError`."""
    if table is None:
        return NO_HOOKS
    table.only(*_NAMES)
    hooks = {name: _hook(each) for name in _NAMES if (each := table.table(name)) is not None}
    for hurts, heals in HEALS.items():
        if hurts in hooks and heals not in hooks:
            raise table.wrong(heals, f"a hook that heals what {hurts} does", "none")
    return Hooks(hooks)


def _hook(table: Table) -> Hook:
    table.only("command", "verify", "within")
    command = table.command("command")
    if command is None:
        raise table.wrong("command", "a command as a list of strings, the program first", "none")
    return Hook(command, table.command("verify"), table.number("within", 30, 1, 3_600))
