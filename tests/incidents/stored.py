"""Writes run directories from a few rows per table: what the search for causes reads, and no more."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from history.schema import ANOMALIES, TABLES

S = 1_000_000_000


def run_in(directory, *, findings=(), story=(), **rows):
    """Write a run; columns that are not given are null."""
    rows.setdefault("runs", [settings()])
    for name, given in rows.items():
        folder = directory / name if name == "anomalies" else directory / "history" / name
        folder.mkdir(parents=True, exist_ok=True)
        schema = ANOMALIES if name == "anomalies" else TABLES[name]
        pq.write_table(pa.Table.from_pylist(list(given), schema=schema), folder / "part-0.parquet")
    if findings:
        (directory / "outcome.json").write_text(json.dumps({"findings": list(findings)}))
        (directory / "story.json").write_text(json.dumps(list(story)))
    return directory


def settings(**changed):
    known = {"name": "planted", "brokers": 3, "acks": -1, "min_insync_replicas": 2, "unclean_election": False}
    return {**known, **changed}


def leads(at_s, broker, epoch, log_end, isr, high_watermark=None, partition=0, elr=()):
    """A sample of a leader."""
    return {
        "at_ns": int(at_s * S), "broker": broker, "topic": "t", "partition": partition, "role": "leader",
        "leader": broker, "leader_epoch": epoch, "log_end": log_end,
        "high_watermark": log_end if high_watermark is None else high_watermark, "isr": list(isr), "elr": list(elr),
    }  # fmt: skip


def follows(at_s, broker, leader, epoch, log_end, partition=0):
    """A sample of a follower."""
    return {
        **leads(at_s, broker, epoch, log_end, (), partition=partition),
        "role": "follower", "leader": leader,
    }  # fmt: skip


def fault(number, kind, targets, started_s, ended_s, **changed):
    return {
        "fault": number, "kind": kind, "targets": list(targets), "started_ns": int(started_s * S),
        "ended_ns": int(ended_s * S), "took_hold": True, "healed": True, **changed,
    }  # fmt: skip


def lost(offset, at_s, partition=0, anomaly="lost-acked-write", **changed):
    return {
        "anomaly": anomaly, "topic": "t", "partition": partition, "offset": offset, "value": 1000 + (offset or 0),
        "at_ns": None if at_s is None else int(at_s * S), "within_contract": False, **changed,
    }  # fmt: skip


HERE = settings(environment="local", started_unix_ms=1_795_897_800_000)
"""A run of this machine that began at 20:30:00.000."""


def logged(directory, node, *lines):
    """Write a node's log: of each line the second, and what Harrow's own broker says."""
    (directory / "nodes" / str(node)).mkdir(parents=True)
    stamped = [f"20:30:{at_s:06.3f} INFO    {text}" for at_s, text in ((0, "starts"), *lines)]
    (directory / "nodes" / str(node) / "node.log").write_text("\n".join(stamped) + "\n")
