"""Measures the CPU time of one acknowledged send of the `log` workload in a worker process, by client library.

    python -m benchmarks.harness.workload_client_cost 127.0.0.1:9092 --rate 1000 --seconds 15

Runs a worker per client against a broker that is already there (any that speaks Kafka's protocol; it gets a topic of
six partitions per run), and prints acknowledged sends a second, the worker's CPU time per send — including
its share of recording the history, and of reading where there are readers — and the latency that the history shows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from history.reader import load_table
from workloads.clients import client_names

PARTITIONS = 6
WARM_UP_S = 2.0
MILLISECOND_NS = 1_000_000


def create_topic(bootstrap: str, name: str, replicas: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name, PARTITIONS, replicas)])
    admin.close()


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def counts(worker: subprocess.Popen[str]) -> Iterator[dict]:
    assert worker.stdout is not None
    for line in worker.stdout:
        report = json.loads(line)
        if report["event"] == "counts":
            yield report


def measure(client: str, options: argparse.Namespace, directory: Path) -> str:
    topic = f"cost-{client}-{time.time_ns()}"
    create_topic(options.bootstrap, topic, options.replicas)
    config = {
        "run_id": client,
        "origin_ns": time.monotonic_ns(),
        "worker": 0,
        "workers": 1,
        "history": str(directory / "history"),
        "bootstrap": [options.bootstrap],
        "topics": {topic: PARTITIONS},
        "client": client,
        "rate": options.rate,
        "producers": options.producers,
        "readers": options.readers,
        "batch_max": options.batch_max,
    }
    path = directory / "config.json"
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "workloads.worker", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        reports = counts(worker)
        started_s = time.monotonic()
        first = next(report for report in reports if time.monotonic() - started_s >= WARM_UP_S)
        first_s, first_cpu_s = time.monotonic(), cpu_s(worker.pid)
        last = next(report for report in reports if time.monotonic() - first_s >= options.seconds)
        elapsed_s, used_s = time.monotonic() - first_s, cpu_s(worker.pid) - first_cpu_s
        worker.terminate()
        for _ in reports:
            pass
    acked = last["sends"]["ok"] - first["sends"]["ok"]
    sends = load_table(directory, "operations").table.to_pandas().query("kind == 'send' and status == 'ok'")
    latency_ms = (sends.completed_ns - sends.invoked_ns).to_numpy() / MILLISECOND_NS
    p50, p99 = np.percentile(latency_ms, [50, 99])
    return (
        f"{client:16} {acked / elapsed_s:8.0f} {used_s / acked * 1e6:8.0f} {used_s / elapsed_s:7.0%}"
        f" {p50:8.1f} {p99:8.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap", help="host:port of a broker")
    parser.add_argument("--clients", nargs="+", choices=client_names(), default=client_names())
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--producers", type=int, default=16)
    parser.add_argument("--readers", type=int, default=0)
    parser.add_argument("--batch-max", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    print(
        f"{options.rate:.0f} sends a second wanted of 1 to {options.batch_max} records each, {options.producers}"
        f" processes, {options.readers} readers, {PARTITIONS} partitions, {options.replicas} replicas"
    )
    print(f"{'client':16} {'acked/s':>8} {'us/send':>8} {'of 1 CPU':>7} {'p50 ms':>8} {'p99 ms':>8}")
    for client in options.clients:
        with tempfile.TemporaryDirectory() as directory:
            print(measure(client, options, Path(directory)), flush=True)


if __name__ == "__main__":
    main()
