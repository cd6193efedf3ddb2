"""Describes the contract that `history.contract` decides: what a run's configuration promises, and where that ends."""

from __future__ import annotations

from history.contract import loss_is_allowed, shutdowns_survived
from reports.data.stored_run import Run
from reports.text.wording import count


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
        sentences.append(
            "Unclean leader election is on: once a replica outside the ISR (and outside the ELR) was elected, any loss"
            " is within the contract."
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
    replicas = "replica" if tolerated == 1 else "replicas"
    return (
        f"With acks=all and min.insync.replicas = {min_isr}, an acknowledged record must survive lossy shutdowns (a"
        f" crash that also takes what was not flushed) of {count(tolerated)} {replicas} of its partition at the same"
        " time. A record lost after more of them is within the contract."
    )
