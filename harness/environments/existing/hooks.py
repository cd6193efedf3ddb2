"""Runs the hooks of nodes of an existing cluster: journals each, and verifies that it has taken effect.

Before a hook hurts a node the journal gets the command that heals it, so that `harrow heal` can run it when the
harness has died.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.store.journal import Journal
from harness.systems.hooks import HEALS, Hook
from nemesis.capabilities.cluster import NodeError

HOOK, HEALED = "hook", "hook-healed"
"""Kinds of the journal's entries: a node is about to be hurt; it was healed."""

_POLL_S = 0.2
_LINE_MAX = 200


def run_command(command: Sequence[str], within_s: float) -> str:
    """Run to the end; returns what went wrong, empty on success."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=within_s,
            check=False, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return f"could not be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"did not end within {within_s:g} s"
    if done.returncode == 0:
        return ""
    said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return f"ended with status {done.returncode}" + (f": {said[-1][:_LINE_MAX]}" if said else "")


@dataclass
class HookRunner:
    """The hooks of one node, their templates filled in."""

    node_id: int
    hooks: Mapping[str, Hook]
    journal: Journal
    hurt_by: set[str] = field(default_factory=set)
    """The hooks that hurt the node and are not healed yet."""

    def hurt(self, name: str, has_effect: Callable[[], bool]) -> None:
        """Run a hook that hurts the node, and wait until it has. Raises `NodeError`; it may have hurt all the same."""
        heals = self.hooks[HEALS[name]]
        details = {"within": heals.within, "command": list(heals.command)}
        self.journal.record(HOOK, node=self.node_id, name=name, **details)
        self.hurt_by.add(name)
        self._run(name, has_effect)

    def heal(self, name: str, has_effect: Callable[[], bool] = lambda: True) -> None:
        """Run the hook that heals what `name` did. Raises `NodeError`."""
        self._run(HEALS[name], has_effect)
        self.hurt_by.discard(name)
        self.journal.record(HEALED, node=self.node_id, name=name)

    def shows(self, name: str) -> bool | None:
        """Whether the hook's own command says that it is in effect; None if it has none."""
        verify = self.hooks[name].verify
        return None if verify is None else run_command(verify, self.hooks[name].within) == ""

    def _run(self, name: str, has_effect: Callable[[], bool]) -> None:
        hook = self.hooks[name]
        if trouble := run_command(hook.command, hook.within):
            raise NodeError(f"expected the hook {name} of node {self.node_id} to work, found that it {trouble}")
        deadline = time.monotonic() + hook.within
        while not (has_effect() if hook.verify is None else self.shows(name)):
            if time.monotonic() >= deadline:
                shown = "the protocol shows no effect of it" if hook.verify is None else "its verify command fails"
                raise NodeError(
                    f"expected the hook {name} of node {self.node_id} to take effect within {hook.within} s, "
                    f"found that {shown}"
                )
            time.sleep(_POLL_S)
