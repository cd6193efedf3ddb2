"""Builds run directories that look like real ones, without a cluster: a small model of three brokers and five faults.

The model keeps one log per partition. At each fault on a leader, the next broker takes over with a new leader epoch;
in a lossy run the page-cache loss also takes the last acknowledged records of partition 1 with it, and the new
leader writes others at their offsets.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from history.schema import ANOMALIES, TABLES

RUN_ID = "run-1"
TOPIC = "events"
SECOND = 1_000_000_000
ELECTION_NS = 1_200_000_000
LOST = 14
DIVERGENT = 3
LOSSY_PARTITION = 1


@dataclass(frozen=True)
class Fault:
    number: int
    kind: str
    target: int
    start_s: float
    end_s: float
    evidence: str
    took_hold: bool = True


FAULTS = (
    Fault(1, "kill", 1, 8, 12, "process 4711 was reaped with signal 9 and came back ready after 1.9 s"),
    Fault(2, "pause", 2, 18, 22, "the process was in state T for the whole time"),
    Fault(3, "isolate", 3, 26, 31, "0 of 6 probes arrived while it lasted, 6 of 6 afterwards"),
    Fault(4, "page-cache-loss", 1, 36, 41, "3 files went back by 18,432 bytes in all"),
    Fault(5, "restart", 2, 48, 52, "exit status 0 after 0.8 s; ready again after 2.1 s"),
)


@dataclass
class Model:
    """The state of the synthetic cluster, and the rows that it produced."""

    lossy: bool
    rate: int
    duration_s: int
    partitions: int = 3
    rows: dict[str, list[dict]] = field(default_factory=lambda: {name: [] for name in TABLES})
    log: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # partition -> [(leader epoch, value)]
    lost: list[tuple[int, int, int]] = field(default_factory=list)  # (offset, leader epoch, value)
    replaced_from: int = 0
    op: int = 0

    def add(self, table, **row):
        self.rows[table].append({"run_id": RUN_ID, **row})

    def operation(self, kind, status, process, node, at_ns, took_ns, phase="main", error=None):
        self.op += 1
        self.add(
            "operations", op=self.op, process=process, client="kafka-python", kind=kind, status=status, error=error,
            node=node, phase=phase, invoked_ns=at_ns,
            completed_ns=None if status == "info" and self.op % 2 else at_ns + took_ns,
        )  # fmt: skip
        return self.op

    def leadership(self, partition, at_ns):
        """Return (leader or None while one is elected, leader epoch) at a moment."""
        leader, epoch = partition % 3 + 1, 0
        for fault in FAULTS:
            start_ns = int(fault.start_s * SECOND)
            if fault.target != leader or start_ns > at_ns:
                continue
            if at_ns < start_ns + ELECTION_NS:
                return None, epoch
            leader, epoch = leader % 3 + 1, epoch + 1
        return leader, epoch


def down(broker, at_ns):
    return any(fault.target == broker and fault.start_s * SECOND <= at_ns < fault.end_s * SECOND for fault in FAULTS)


def build(directory: Path, *, lossy=False, rate=200, duration_s=60, verdict=None) -> Path:
    """Write a whole run directory and return it."""
    model = Model(lossy, rate, duration_s)
    model.log = {partition: [] for partition in range(model.partitions)}
    _writes_and_live_reads(model)
    _final_reads(model)
    _samples(model)
    _dumps(model)
    _frame(model)
    for name, rows in model.rows.items():
        write_table(directory, name, rows, parts=3 if name == "operations" else 1)
    anomalies = anomalies_of(model)
    write_table(directory, "anomalies", anomalies)
    _files(directory, model, anomalies, verdict or ("invalid" if lossy else "valid"))
    return directory


def write_table(directory: Path, name: str, rows: list[dict], parts: int = 1) -> None:
    folder = directory / name if name == "anomalies" else directory / "history" / name
    folder.mkdir(parents=True, exist_ok=True)
    schema = ANOMALIES if name == "anomalies" else TABLES[name]
    size = -(-len(rows) // parts) or 1
    for part in range(parts):
        chunk = rows[part * size : (part + 1) * size]
        pq.write_table(pa.Table.from_pylist(chunk, schema=schema), folder / f"part-{part:05d}.parquet")


def _writes_and_live_reads(model):
    dice = random.Random(7)
    step_ns = SECOND // model.rate
    read_to = {(reader, partition): 0 for reader in (90, 91) for partition in model.log}
    loss_ns = int(FAULTS[3].start_s * SECOND)
    lost_yet = not model.lossy
    for number in range(model.rate * model.duration_s):
        at_ns = SECOND + number * step_ns
        partition = number % model.partitions
        if not lost_yet and at_ns >= loss_ns + ELECTION_NS:
            _lose(model)
            lost_yet = True
        leader, epoch = model.leadership(partition, at_ns)
        took_ns = int(dice.lognormvariate(1.3, 0.5) * 1e6)
        value = 1_000_000_000_000 + number
        if leader is None:
            status = dice.choice(["info", "fail"])
            error = "NOT_LEADER_OR_FOLLOWER" if status == "fail" else "REQUEST_TIMED_OUT"
            op = model.operation("send", status, number % 8, None, at_ns, 700_000_000, error=error)
            offset = None
        else:
            op = model.operation("send", "ok", number % 8, leader, at_ns, took_ns)
            offset = len(model.log[partition])
            model.log[partition].append((epoch, value))
        model.add("sends", op=op, topic=TOPIC, partition=partition, value=value, acks=-1, offset=offset, ordinal=0)
        if number % 20 == 19:
            for reader in (90, 91):
                _live_poll(model, reader, at_ns, read_to)


def _live_poll(model, reader, at_ns, read_to):
    op = model.operation("poll", "ok", reader, reader % 3 + 1, at_ns, 2_000_000)
    for partition, log in model.log.items():
        position, end = read_to[reader, partition], max(0, len(log) - 2 * (reader == 91))
        end = max(position, end)
        _poll_rows(model, op, partition, position, min(end, len(log)), len(log))
        read_to[reader, partition] = end


def _poll_rows(model, op, partition, position, end, high_watermark):
    records = model.log[partition][position:end]
    model.add(
        "polls", op=op, topic=TOPIC, partition=partition, position=position, next_position=max(end, position),
        high_watermark=high_watermark, records=len(records), assigned=position == 0,
    )  # fmt: skip
    for ordinal, (epoch, value) in enumerate(records):
        model.add(
            "reads", op=op, topic=TOPIC, partition=partition, offset=position + ordinal, leader_epoch=epoch,
            value=value, ordinal=ordinal,
        )  # fmt: skip


def _lose(model):
    log = model.log[LOSSY_PARTITION]
    model.replaced_from = len(log) - LOST
    model.lost = [(model.replaced_from + i, *record) for i, record in enumerate(log[-LOST:])]
    del log[-LOST:]


def _final_reads(model):
    end_ns = (model.duration_s + 6) * SECOND
    for reader in (92, 93):
        position = dict.fromkeys(model.log, 0)
        step = 0
        while any(position[partition] < len(log) for partition, log in model.log.items()):
            op = model.operation(
                "poll", "ok", reader, 1, end_ns + step * 50_000_000 + reader * 1_000_000, 9_000_000, "final"
            )
            for partition, log in model.log.items():
                target = min(len(log), position[partition] + max(60, len(log) // 40))
                _poll_rows(model, op, partition, position[partition], target, len(log))
                position[partition] = target
            step += 1


def _samples(model):
    for tick in range(2 * (model.duration_s + 8)):
        at_ns = tick * SECOND // 2
        share = min(1.0, max(0.0, (at_ns - SECOND) / (model.duration_s * SECOND)))
        for partition, log in model.log.items():
            leader, epoch = model.leadership(partition, at_ns)
            isr = [broker for broker in (1, 2, 3) if not down(broker, at_ns - SECOND)]
            end = int(len(log) * share)
            for broker in (1, 2, 3):
                if down(broker, at_ns):
                    continue
                behind = 0 if broker == leader else 3
                log_end = max(0, end - behind)
                if model.lossy and partition == LOSSY_PARTITION and 35 <= at_ns / SECOND < 37:
                    log_end = model.replaced_from + (LOST if at_ns < 36.5 * SECOND else 0)
                model.add(
                    "cluster", at_ns=at_ns, broker=broker, topic=TOPIC, partition=partition,
                    role="leader" if broker == leader else "follower", leader=leader or -1, leader_epoch=epoch,
                    log_start=0, log_end=log_end, high_watermark=max(0, log_end - 2), isr=isr, elr=[],
                    broker_epoch=10 + broker,
                )  # fmt: skip


def _dumps(model):
    for partition, log in model.log.items():
        for broker in (1, 2, 3):
            for offset, record in enumerate(log):
                epoch, value = record
                diverges = (
                    model.lossy
                    and broker == 2
                    and partition == LOSSY_PARTITION
                    and 0 <= offset - model.replaced_from < DIVERGENT
                )
                if diverges:
                    _, epoch, value = model.lost[offset - model.replaced_from]
                model.add(
                    "logs", broker=broker, topic=TOPIC, partition=partition, offset=offset, leader_epoch=epoch,
                    value=value, crc=value % 2**32, high_watermark=len(log),
                )  # fmt: skip
        model.add("ends", topic=TOPIC, partition=partition, end_offset=len(log), agreed=True)


def _frame(model):
    main_end = (model.duration_s + 1) * SECOND
    borders = [0, SECOND, main_end, main_end + 5 * SECOND, main_end + 8 * SECOND]
    for name, start, end in zip(("set-up", "main", "recovery", "final"), borders, borders[1:], strict=False):
        model.add("phases", phase=name, started_ns=start, ended_ns=end)
    for fault in FAULTS:
        model.add(
            "faults", fault=fault.number, kind=fault.kind, targets=[fault.target],
            parameters=json.dumps({"role": f"the leader of events-{fault.number % 3}"}),
            started_ns=int(fault.start_s * SECOND),
            ended_ns=int(fault.end_s * SECOND),
            schedule_entry=fault.number - 1, took_hold=fault.took_hold,
            healed=True, evidence=fault.evidence,
        )  # fmt: skip
    for worker in (0, 1):
        model.add("workers", worker=worker, operations=model.op // 2)
    model.add(
        "runs", name="nightly", seed=42, system="harrow", environment="local", started_unix_ms=1_763_700_000_000,
        brokers=3, replication_factor=3, min_insync_replicas=2, acks=-1, idempotence=False, unclean_election=False,
        generation="K5", flaws=["ack-before-replication"] if model.lossy else [], workers=2, faults_wanted=True,
        unavailable_after_ms=30_000, spec=json.dumps(spec_of(model)),
    )  # fmt: skip


def spec_of(model) -> dict:
    return {
        "name": "nightly", "environment": "local", "brokers": 3, "partitions": 3, "replication_factor": 3,
        "min_insync_replicas": 2, "acks": "all", "idempotence": False, "unclean_election": False,
        "flush": "never", "workload": "log", "faults": ["kill", "pause", "isolate", "page-cache-loss", "restart"],
        "duration": model.duration_s, "rate": model.rate, "seed": 42,
        "flaws": ["ack-before-replication"] if model.lossy else [],
        "mechanisms": {"network": "network namespaces and nftables", "page-cache-loss": "FUSE file system"},
        "versions": {"harrow": "0.1.0", "kafka-python": "3.0.12", "python": "3.11.2"},
    }  # fmt: skip


def anomalies_of(model) -> list[dict]:
    rows = []
    for offset, _, value in model.lost:
        ops = [row["op"] for row in model.rows["sends"] if row["value"] == value]
        rows.append({
            "run_id": RUN_ID, "anomaly": "lost-acked-write", "within_contract": False, "topic": TOPIC,
            "partition": LOSSY_PARTITION, "offset": offset, "value": value, "op": ops[0], "process": ops[0] % 8,
            "broker": 1, "at_ns": 35_900_000_000,
            "explanation": f"Value {value} was acknowledged at offset {offset} and no reader of the final phase "
            "found it, although one read offsets beyond it.",
            "evidence": json.dumps({
                "acks": -1, "final_complete": True, "replicas": [{"broker": 1, "value": None}],
                "faults": [{"fault": 4, "kind": "page-cache-loss", "targets": [1], "when": "after"}],
            }),
        })  # fmt: skip
    for offset, _, value in model.lost[:DIVERGENT]:
        rows.append({
            "run_id": RUN_ID, "anomaly": "divergent-replicas", "within_contract": False, "topic": TOPIC,
            "partition": LOSSY_PARTITION, "offset": offset, "value": value, "op": None, "process": None,
            "broker": 2, "at_ns": None,
            "explanation": f"Broker 2 holds another record at offset {offset} than brokers 1 and 3, below all "
            "high watermarks.",
            "evidence": json.dumps({"offsets": [offset], "replicas": [1, 2, 3]}),
        })  # fmt: skip
    if model.lossy:
        rows.append({
            "run_id": RUN_ID, "anomaly": "stale-read", "within_contract": True, "topic": TOPIC, "partition": 0,
            "offset": 310, "value": None, "op": 4000, "process": 90, "broker": 3, "at_ns": 27 * SECOND,
            "explanation": "A fenced leader answered a poll with an end 4 records behind what was acknowledged; "
            "it lasted 0.9 s.",
            "evidence": json.dumps({"operations": [4000], "faults": [3], "lag_ns": 900_000_000}),
        })  # fmt: skip
    return rows


def _files(directory, model, anomalies, verdict):
    (directory / "spec.json").write_text(json.dumps(spec_of(model)))
    schedule = [{"kind": fault.kind, "target": "leader", "at_s": fault.start_s} for fault in FAULTS]
    (directory / "schedule.json").write_text(json.dumps(schedule))
    counts = Counter((row["anomaly"], row["within_contract"]) for row in anomalies)
    results = {
        "run_id": RUN_ID, "verdict": verdict, "reasons": [reason_for(verdict)],
        "anomalies": {
            name: {"violations": counts[name, False], "within_contract": counts[name, True]}
            for name in {row["anomaly"] for row in anomalies}
        },
        "counts": {"operations": model.op}, "metrics": {"p99_ms": 12.75},
    }  # fmt: skip
    (directory / "results.json").write_text(json.dumps(results))
    for node in (1, 2, 3, 100):
        (directory / "nodes" / str(node)).mkdir(parents=True)
        lines = [f"{second:>6}.000 info events-1 heartbeat {second} answered" for second in range(100)]
        (directory / "nodes" / str(node) / "node.log").write_text("\n".join(lines) + "\n")


def reason_for(verdict):
    return {
        "valid": "all checks passed",
        "invalid": "lost-acked-write: 14 violations",
        "unknown": "the final reads of events-2 did not reach the end that the replicas agreed on",
    }[verdict]
