"""Removes what a run leaves in a cluster that it did not start: its topic, its groups, nodes that a hook has hurt.

The run does it at its end, and `harrow heal` from the journal when the harness was killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from harness.environments.existing.hooks import HEALED, HOOK, run_command
from harness.environments.machine.helpers.programs import module_command
from harness.store.journal import Entry
from harness.systems.administration import REMOVE_RUN

TOPIC = "topic"
"""Kind of the journal's entry about the topic and the groups of the run."""

_REMOVED_S = 60.0


def remove(bootstrap: Sequence[str], topic: str, groups: Sequence[str], client_config: str = "") -> str:
    """Remove a topic and groups; those that do not exist are none to remove. Returns what went wrong, or nothing.

    `client_config`: the file for TLS and SASL; empty: plain text.
    """
    request = {
        "do": REMOVE_RUN,
        "bootstrap": list(bootstrap),
        "client_config": client_config,
        "topic": topic,
        "groups": list(groups),
        "timeout_s": _REMOVED_S / 2,
    }
    return run_command(module_command("harness.systems.administration", json.dumps(request)), _REMOVED_S)


def heal_cluster(entries: Sequence[Entry]) -> Iterator[str]:
    """Heal from a journal; yields a line for each thing that was done, or that could not be."""
    hurt: dict[tuple[int, str], Entry] = {}
    for entry in entries:
        if entry["kind"] == HOOK:
            hurt[entry["node"], entry["name"]] = entry
        elif entry["kind"] == HEALED:
            hurt.pop((entry["node"], entry["name"]), None)
    for (node, name), entry in sorted(hurt.items()):
        trouble = run_command(entry["command"], entry["within"])
        yield f"node {node}, which the hook {name} hurt, {f'not healed: its hook {trouble}' if trouble else 'healed'}"
    for entry in entries:
        if entry["kind"] == TOPIC:
            trouble = remove(entry["bootstrap"], entry["topic"], entry["groups"], entry.get("client_config", ""))
            yield f"topic {entry['topic']} {f'not removed: {trouble}' if trouble else 'removed'}"
