"""Defines the history: everything that a run observed, as Parquet tables keyed by `run_id`.

The tables are the contract between the packages that drive a cluster (harness, workloads, nemesis) and those that judge
it (checkers, reports). Times are integer nanoseconds of the run's one clock (`CLOCK_MONOTONIC`, shared by all processes
of the run), counted from the start of the run. A table is a directory of part files; a part appears under its final
name only when it is whole, so a run that was killed half-way leaves a readable history.
"""

from __future__ import annotations

import pyarrow as pa

_KEY = ("run_id", pa.string())

RUNS = pa.schema(
    [
        _KEY,
        ("name", pa.string()),
        ("seed", pa.int64()),
        ("system", pa.string()),  # "harrow" or the name of a system definition
        ("volatile", pa.bool_()),  # the system keeps nothing beyond the end of a node's process, and promises no more
        ("environment", pa.string()),
        ("started_unix_ms", pa.int64()),
        ("brokers", pa.int32()),
        ("controllers", pa.int32()),
        ("replication_factor", pa.int32()),
        ("min_insync_replicas", pa.int32()),
        ("acks", pa.int32()),  # -1 all, 0, 1
        ("idempotence", pa.bool_()),
        ("unclean_election", pa.bool_()),
        ("generation", pa.string()),
        ("flaws", pa.list_(pa.string())),
        ("workers", pa.int32()),  # rows that `workers` must have, else the history is incomplete
        ("faults_wanted", pa.bool_()),  # a run with faults in which none took effect is unknown
        ("unavailable_after_ms", pa.int64()),  # bound of the anomaly `unavailable`
        ("spec", pa.string()),  # the whole specification, JSON
    ]
)
"""One row per run, written before anything starts."""

OPERATIONS = pa.schema(
    [
        _KEY,
        ("op", pa.int64()),
        ("process", pa.int64()),  # logical, single-threaded; retired after an `info`
        ("client", pa.string()),  # client library
        ("kind", pa.string()),  # "send", "poll", "latest", "commit", "committed"
        ("status", pa.string()),  # "ok", "fail" (certainly no effect), "info" (unknown)
        ("error", pa.string()),
        ("node", pa.int32()),  # broker that answered, null when not known
        ("phase", pa.string()),  # "main" or "final"
        ("invoked_ns", pa.int64()),
        ("completed_ns", pa.int64()),  # null when it never completed
    ]
)
"""One row per client operation. A `latest` asks for the end offset; its answer is a row of `polls`."""

SENDS = pa.schema(
    [
        _KEY,
        ("op", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("value", pa.int64()),  # unique in the run
        ("acks", pa.int32()),
        ("offset", pa.int64()),  # null unless the broker returned it
        ("ordinal", pa.int32()),  # position among the records of the operation
    ]
)
"""One row per record that an operation sent."""

POLLS = pa.schema(
    [
        _KEY,
        ("op", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("position", pa.int64()),  # offset asked for; null for `latest`
        ("next_position", pa.int64()),  # position after the poll; for `latest` the end offset that was answered
        ("high_watermark", pa.int64()),  # as returned by the broker with the records, null when not known
        ("records", pa.int32()),
        ("assigned", pa.bool_()),  # first poll after an assignment or seek: `position` may be anything
    ]
)
"""One row per partition that a poll covered."""

READS = pa.schema(
    [
        _KEY,
        ("op", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("value", pa.int64()),  # null when the payload was not written by a client of the run
        ("ordinal", pa.int32()),  # position within the poll
    ]
)
"""One row per record that a poll returned."""

COMMANDS = pa.schema(
    [
        _KEY,
        ("value", pa.int64()),  # of the record that carried the command, as in `sends`
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.string()),  # the object; commands to different ones never constrain each other
        ("model", pa.string()),  # the sequential object: "cas-register", "fifo-queue"
        ("process", pa.int64()),
        ("function", pa.string()),
        ("argument", pa.string()),  # JSON; null: it takes none
        ("result", pa.string()),  # JSON; null: not known, or it has none
        ("status", pa.string()),  # as in `operations`
        ("invoked_ns", pa.int64()),
        ("completed_ns", pa.int64()),  # null when the client never learnt the outcome
    ]
)
"""One row per command that clients gave to an object kept in a log (workloads `register` and `queue`)."""

COMMITS = pa.schema(
    [
        _KEY,
        ("op", pa.int64()),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # committed, or answered; null: the answer was that there is none
        ("member", pa.string()),  # id that the coordinator gave
        ("generation", pa.int32()),  # of a commit: as it was sent; null for a question
        ("kept_in", pa.int32()),  # partition of the topic in which the cluster stores the group, null when not known
    ]
)
"""One row per partition whose committed offset a member of a group set (`commit`) or asked for (`committed`)."""

OWNERSHIPS = pa.schema(
    [
        _KEY,
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("process", pa.int64()),
        ("member", pa.string()),
        ("generation", pa.int32()),
        ("since_ns", pa.int64()),  # when the member learnt that it owns the partition
        ("until_ns", pa.int64()),  # it gave the partition back, or was gone; null when not known
        ("kept_in", pa.int32()),  # as in `commits`
    ]
)
"""One row per partition and generation in which a member of a group owned it, written when it no longer did."""

ADMINISTRATION = pa.schema(
    [
        _KEY,
        ("process", pa.int64()),
        ("action", pa.string()),  # "create", "delete", "add-partitions", "reassign"
        ("topic", pa.string()),
        ("parameters", pa.string()),  # JSON
        ("status", pa.string()),  # as in `operations`
        ("error", pa.string()),
        ("invoked_ns", pa.int64()),
        ("completed_ns", pa.int64()),  # null when it never completed
    ]
)
"""One row per request of a client that administers topics (workload `admin`). No name of a topic is given twice."""

FAULTS = pa.schema(
    [
        _KEY,
        ("fault", pa.int32()),  # number in the run, from 1
        ("kind", pa.string()),
        ("targets", pa.list_(pa.int32())),  # node ids
        ("parameters", pa.string()),  # JSON
        ("started_ns", pa.int64()),
        ("held_ns", pa.int64()),  # when it was seen to have taken hold; null if it has not, or nobody noted it
        ("ended_ns", pa.int64()),
        ("schedule_entry", pa.int32()),
        ("took_hold", pa.bool_()),
        ("healed", pa.bool_()),
        ("evidence", pa.string()),  # how it was verified, one sentence
    ]
)
"""One row per fault fired, written when it ended."""

CLUSTER = pa.schema(
    [
        _KEY,
        ("at_ns", pa.int64()),
        ("broker", pa.int32()),  # the one that was sampled
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("role", pa.string()),  # "leader", "follower", "none"
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("log_start", pa.int64()),
        ("log_end", pa.int64()),
        ("high_watermark", pa.int64()),
        ("isr", pa.list_(pa.int32())),
        ("elr", pa.list_(pa.int32())),
        ("broker_epoch", pa.int64()),
        ("last_known_elr", pa.list_(pa.int32())),  # KIP-966; null when the broker does not tell
    ]
)
"""One row per sample of one replica: what that broker believes."""

LOGS = pa.schema(
    [
        _KEY,
        ("broker", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("value", pa.int64()),
        ("crc", pa.int64()),  # CRC-32C of the record's batch as stored
        ("high_watermark", pa.int64()),  # of this replica when it was dumped
    ]
)
"""One row per record in a replica's log after the run."""

REPEATS = pa.schema(
    [
        _KEY,
        ("broker", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.int64()),
        ("producer_id", pa.int64()),  # null for a producer that was not idempotent, like the next two
        ("producer_epoch", pa.int32()),
        ("sequence", pa.int32()),
    ]
)
"""One row per record in a replica's log after the run whose value that log holds more than once."""

ENDS = pa.schema(
    [
        _KEY,
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("end_offset", pa.int64()),
        ("agreed", pa.bool_()),  # every replica's high watermark and log end stood there before the final reads
    ]
)
"""One row per partition: the end that the final reads must reach."""

PHASES = pa.schema(
    [
        _KEY,
        ("phase", pa.string()),  # "set-up", "main", "recovery", "final", "tear-down"
        ("started_ns", pa.int64()),
        ("ended_ns", pa.int64()),
    ]
)
"""One row per phase of the run that ended."""

WORKERS = pa.schema(
    [
        _KEY,
        ("worker", pa.int32()),
        ("operations", pa.int64()),
    ]
)
"""One row per worker process that closed its part of the history in an orderly way."""

QUORUM = pa.schema(
    [
        _KEY,
        ("at_ns", pa.int64()),
        ("controller", pa.int32()),  # the one that was asked
        ("role", pa.string()),  # "leader", "follower", "candidate", "prospective", "unattached", "resigned"
        ("leader", pa.int32()),  # -1: knows none
        ("epoch", pa.int32()),
        ("log_end", pa.int64()),  # of its metadata log
        ("high_watermark", pa.int64()),
    ]
)
"""One row whenever a controller was first seen with this role, leader and epoch: the quorum over time."""

VERSIONS = pa.schema(
    [
        _KEY,
        ("node", pa.int32()),
        ("at_ns", pa.int64()),  # when it was first seen to run it
        ("version", pa.string()),  # as its process reports it
    ]
)
"""One row whenever a node was first seen to run this version of the system, in runs with an upgrade."""

TROUBLES = pa.schema(
    [
        _KEY,
        ("at_ns", pa.int64()),
        ("phase", pa.string()),  # as in `phases`
        ("source", pa.string()),  # "harness" (its own error), "node" (someone outside the run ended it), "cluster"
        ("text", pa.string()),  # one or more lines
    ]
)
"""One row per thing that went wrong beside what clients saw. The first two sources keep a run from being valid."""

LOSSES = pa.schema(
    [
        _KEY,
        ("node", pa.int32()),
        ("at_ns", pa.int64()),  # when it was seen to have ended
        ("exit_status", pa.int32()),  # negative: the signal that it died of
        ("last_words", pa.string()),  # from its log: the message of its exception, one line
        ("exempt", pa.list_(pa.string())),  # kinds of fault after which a node of this system need not come back
    ]
)
"""One row per node that ended by itself after set-up, and so did not come back: no fault ended it then."""

LATER_COLUMNS = frozenset({"last_known_elr"})
"""Columns that histories of earlier releases lack."""

TABLES: dict[str, pa.Schema] = {
    "runs": RUNS,
    "operations": OPERATIONS,
    "sends": SENDS,
    "polls": POLLS,
    "reads": READS,
    "commands": COMMANDS,
    "commits": COMMITS,
    "ownerships": OWNERSHIPS,
    "administration": ADMINISTRATION,
    "faults": FAULTS,
    "cluster": CLUSTER,
    "quorum": QUORUM,
    "logs": LOGS,
    "repeats": REPEATS,
    "ends": ENDS,
    "phases": PHASES,
    "workers": WORKERS,
    "versions": VERSIONS,
    "troubles": TROUBLES,
    "losses": LOSSES,
}

ANOMALIES = pa.schema(
    [
        _KEY,
        ("anomaly", pa.string()),  # name as in docs/reference/checkers.md
        ("within_contract", pa.bool_()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.int64()),
        ("op", pa.int64()),
        ("process", pa.int64()),
        ("broker", pa.int32()),
        ("at_ns", pa.int64()),
        ("explanation", pa.string()),  # one to three sentences for a reader who did not watch the run
        ("evidence", pa.string()),  # JSON object: operations, offsets, values, replicas, faults that were active
    ]
)
"""What the checkers found: one row per anomaly."""
