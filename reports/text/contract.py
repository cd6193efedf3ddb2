"""What was promised: one sentence per anomaly, and the contract of the run's configuration.

The names are those of the checkers; an anomaly that has none here is still shown, without a promise.
"""

from __future__ import annotations

from collections.abc import Mapping

from reports.data.stored_run import Run
from reports.text.wording import count

PROMISES: Mapping[str, str] = {
    "lost-acked-write": "A record whose write was acknowledged stays in the log and is read by everyone who reads"
    " past its offset.",
    "lost-read": "A record that a reader was once given was committed, and a committed record stays.",
    "unseen": "Every acknowledged record is read by someone before the run ends.",
    "inconsistent-offset": "An offset of a partition names one record, for every reader and on every replica.",
    "wrong-offset": "The offset that a producer is told is the offset at which its record is read.",
    "duplicate": "With an idempotent producer a record stands in the log once, however often it was retried.",
    "phantom-read": "Every record that is read was sent by somebody.",
    "aborted-read": "A write that certainly failed left nothing in the log.",
    "dirty-read": "Readers are given only what is below the high watermark.",
    "corrupt-record": "A record is read as it was sent, byte for byte.",
    "reordered-send": "A write that completed before another was invoked has the lower offset.",
    "nonmonotonic-send": "The writes that one producer awaited one after the other stand in the log in that order.",
    "stale-read": "Who asks after a write was acknowledged is shown that write.",
    "nonmonotonic-poll": "A reader's position only goes forward, unless it seeks or is assigned anew.",
    "skipped-poll": "A reader that goes forward is given every record on the way.",
    "end-offset-regression": "The end of the log that clients are shown never goes back.",
    "divergent-replicas": "Below their high watermarks, all replicas of a partition hold the same records.",
    "epoch-regression": "Along a log the leader epoch never goes down, and one leader writes in each.",
    "two-leaders": "In one leader epoch one replica accepts writes.",
    "committed-offset-regression": "The committed offset of a group does not go back by itself.",
    "lost-commit": "The committed offset of a group is the last one that was acknowledged.",
    "double-ownership": "In one generation of a group each partition belongs to one member.",
    "nonlinearizable": "What clients are told of an object kept in a log is what one order of all commands explains.",
    "unavailable": "Once every fault is healed, writes are acknowledged, readers progress and ISRs are full again"
    " within the bound.",
    "malformed-history": "The history is whole: every operation has its rows, and the rows make sense together.",
}
"""Anomaly → what the cluster owed its clients; the gravest come first, and are shown first."""

BREACHES: Mapping[str, str] = {
    "lost-acked-write": "acknowledged writes that were lost",
    "lost-read": "records that were read and then lost",
    "inconsistent-offset": "offsets with more than one record",
    "wrong-offset": "producers told a wrong offset",
    "duplicate": "records that stand in the log twice",
    "phantom-read": "records read that nobody sent",
    "aborted-read": "records read whose write had failed",
    "dirty-read": "records read before they were committed",
    "corrupt-record": "records that were corrupted",
    "reordered-send": "writes out of order",
    "nonmonotonic-send": "writes of one producer out of order",
    "stale-read": "reads that missed an acknowledged write",
    "nonmonotonic-poll": "readers thrown back",
    "skipped-poll": "readers that were not given a record",
    "end-offset-regression": "ends of logs that went back",
    "divergent-replicas": "records on which replicas disagree",
    "epoch-regression": "leader epochs that went back",
    "two-leaders": "leader epochs with two leaders",
    "committed-offset-regression": "committed offsets that went back",
    "lost-commit": "answers that lacked an acknowledged commit",
    "double-ownership": "partitions with two owners at once",
    "nonlinearizable": "objects whose history no order explains",
    "unavailable": "failures to recover",
}
"""Anomaly → what its violations are, for a reader who does not know the name."""

RECORD_ANOMALIES = frozenset({
    "lost-acked-write",
    "lost-read",
    "unseen",
    "inconsistent-offset",
    "wrong-offset",
    "duplicate",
    "phantom-read",
    "aborted-read",
    "dirty-read",
    "corrupt-record",
    "reordered-send",
    "nonmonotonic-send",
    "divergent-replicas",
    "epoch-regression",
})  # fmt: skip
"""Anomalies about a record, whose story has a picture of the logs."""


def contract_sentences(run: Run) -> list[str]:
    """Say what the configuration promises about acknowledged records and about reads, and where that ends."""
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
        " may serve old but committed data, and a new leader may hold a poll back until its high watermark has caught"
        " up. Such a stale read is within the contract, any other is a violation."
    )
    return sentences


def _durability(run: Run) -> str:
    acks = run.number("acks")
    if acks == 0:
        return "With acks=0 nothing was promised about any record."
    if acks == 1:
        return (
            "With acks=1 the leader alone vouches for a record: losing it is a violation only if the leader neither"
            " changed nor lost its disk cache."
        )
    min_isr = run.number("min_insync_replicas")
    if min_isr is None:
        return "The configuration is not known, so neither is the number of lossy shutdowns that it must survive."
    tolerated = max(0, min_isr - 1)
    replicas = "replica" if tolerated == 1 else "replicas"
    return (
        f"With acks=all and min.insync.replicas = {min_isr}, an acknowledged record must survive lossy shutdowns (a"
        f" crash that also takes what was not flushed) of {count(tolerated)} {replicas} of its partition at the same"
        " time. A record lost after more of them is within the contract."
    )
