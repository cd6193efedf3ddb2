"""Builds the command that runs a stored run again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from reports.data.stored_run import Run

FLAGS: Mapping[str, str] = {
    "name": "--name",
    "environment": "--environment",
    "brokers": "--brokers",
    "partitions": "--partitions",
    "replication_factor": "--replication-factor",
    "min_insync_replicas": "--min-insync-replicas",
    "acks": "--acks",
    "idempotence": "--idempotence",
    "unclean_election": "--unclean-election",
    "flush": "--flush",
    "workload": "--workload",
    "client": "--client",
    "faults": "--faults",
    "interval": "--interval",
    "duration": "--duration",
    "rate": "--rate",
    "concurrency": "--concurrency",
    "generation": "--generation",
    "seed": "--seed",
    "flaws": "--flaw",
}
"""Key of the specification → flag of `harrow run`."""

_REPEATED = frozenset({"--flaw"})
_NEGATABLE = frozenset({"--idempotence"})


def reproduce_command(run: Run) -> str:
    """Return the shell command: the specification's own `reproduce`, or else one built from its keys.

    Without a specification there is nothing to reproduce and the answer is empty.
    """
    own = run.spec.get("reproduce")
    if isinstance(own, str) and own.strip():
        return own
    if isinstance(own, list) and own:
        return shlex.join(str(word) for word in own)
    known: dict[str, Any] = {key: run.spec[key] for key in FLAGS if run.spec.get(key) is not None}
    if not known:
        return ""
    words = ["harrow", "run"]
    for key, value in known.items():
        words += _words(FLAGS[key], value)
    return shlex.join(words)


def _words(flag: str, value: object) -> Sequence[str]:
    if value is True:
        return [flag]
    if value is False:
        return [flag.replace("--", "--no-", 1)] if flag in _NEGATABLE else []
    if isinstance(value, list):
        if flag in _REPEATED:
            return [word for one in value for word in (flag, str(one))]
        return [flag, ",".join(str(one) for one in value) or "none"]
    if flag == "--acks" and value == -1:
        return [flag, "all"]
    return [flag, f"{value:g}" if isinstance(value, float) else str(value)]
