"""Says what follows from a run's configuration: the contract (`history.contract`), and the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.wording import count
from history.contract import loss_is_allowed, shutdowns_survived
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


def contract_sentences(run: Run) -> list[str]:
    """Return what the configuration promises about acknowledged records and about reads, and where that ends."""
    sentences = [_durability(run)]
    if run.flag("volatile"):
        sentences.append(
            f"{run.text('system')} keeps its records in memory alone, so its definition says: it promises nothing"
            " beyond the end of a node's process. So every fault that ends one is a lossy shutdown of all that the node"
            " held."
        )
    if run.flag("unclean_election"):
        on = "Unclean leader election is on"
        given = run.spec.get("configuration")
        given = given if isinstance(given, dict) else run.spec
        if given.get("unclean_election") is False:  # a simulated run has other ways to it
            on = "The strategy of recovery, or a change of settings at run time, allows unclean leader election"
        sentences.append(
            f"{on}: once a replica outside the ISR (and outside the ELR) was elected, any loss is within the contract."
        )
    sentences.append(
        "Reads are linearizable per partition, with two exceptions: a leader that was replaced and cannot know it yet"
        " may serve old but committed data (BL-10), and a new leader may hold a poll back until its high watermark has"
        " caught up (HW-6, FE-8). Such a stale read is within the contract, any other is a violation."
    )
    return sentences


def _durability(run: Run) -> str:
    acks = run.number("acks")
    if loss_is_allowed(acks, replicas_failed=False, leader_failed=False):
        return "With acks=0 nothing was promised about any record."
    if loss_is_allowed(acks, replicas_failed=False, leader_failed=True):
        return (
            "With acks=1 the leader alone vouches for a record: losing it is a violation only if the leader neither"
            " changed nor lost its disk cache."
        )
    min_isr = run.number("min_insync_replicas")
    if min_isr is None:
        return "The configuration is not known, so neither is the number of lossy shutdowns that it must survive."
    tolerated = shutdowns_survived(min_isr)
    if tolerated == 0:
        return (
            f"With acks=all and min.insync.replicas = {min_isr}, a single replica may have acknowledged a record: it"
            " may be lost within the contract if that one shuts down lossily (a crash that also takes what was not"
            " flushed)."
        )
    replicas = "replica" if tolerated == 1 else "replicas"
    return (
        f"With acks=all and min.insync.replicas = {min_isr}, an acknowledged record must survive lossy shutdowns (a"
        f" crash that also takes what was not flushed) of {count(tolerated)} {replicas} of its partition at the same"
        " time. A record lost after more of them is within the contract."
    )


def reproduce_command(run: Run, here: str) -> str:
    """Return the shell command: the specification's own `reproduce`, or else one built from its keys.

    A file of the run's own directory is named as one of `here`, wherever the directory was when the run was made.
    Without a specification there is nothing to reproduce and the answer is empty.
    """
    own = run.spec.get("reproduce")
    if isinstance(own, str) and own.strip():
        return _with_files_of(run, own, here)
    if isinstance(own, list) and own:
        return shlex.join(str(word) for word in own)
    known: dict[str, Any] = {key: run.spec[key] for key in FLAGS if run.spec.get(key) is not None}
    if not known:
        return ""
    words = ["harrow", "run"]
    for key, value in known.items():
        words += _words(FLAGS[key], value)
    return shlex.join(words)


def _with_files_of(run: Run, command: str, here: str) -> str:
    run_id = run.settings.get("run_id")
    for word in command.split():
        path = Path(word)
        if path.parent.name in (run_id, run.directory.name) and (run.directory / path.name).is_file():
            command = command.replace(word, shlex.quote(f"{here}/{path.name}"))
    return command


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
