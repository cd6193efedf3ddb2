"""Measures a cluster of three brokers and a controller on this machine.

    python -m benchmarks.broker.produce_throughput operations  acknowledged operations a second, and their latency
    python -m benchmarks.broker.produce_throughput partition   throughput of one partition and of a bare server
    python -m benchmarks.broker.produce_throughput idle        CPU of a cluster that has nothing to do
    python -m benchmarks.broker.produce_throughput failover    from the death of a leader to the next acknowledged write

Each prints its workload and its measurements. `--seconds` sets the length.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from benchmarks.broker.bare_broker import TOPIC
from benchmarks.harness.workload_client_cost import counts, cpu_s
from history.reader import load_table
from tests.support.local_cluster import ROOT, LocalCluster, LocalNode, eventually

WARM_UP_S = 3.0
MILLISECOND_NS = 1_000_000
VALUE = b"x" * 100
BARE = "bare asyncio server"
AIMS = {BARE: "", "RF 1": " (aim 50%)", "RF 3": " (aim 25%)"}


def create(cluster: LocalCluster, name: str, partitions: int, replicas: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic(name, partitions, replicas)])
    admin.close()
    cluster.wait_until_whole(name, limit_s=120)


def cpu_of(nodes: list[LocalNode]) -> dict[int, float]:
    return {node.number: cpu_s(node.pid) for node in nodes}


# --- operations -------------------------------------------------------------------------------------------


def operations(options: argparse.Namespace) -> None:
    """Acknowledged operations of the `log` workload's own worker, one record an operation."""
    partitions = 6
    print(
        f"3 brokers on {os.cpu_count()} cores, {partitions} partitions, RF 3, min ISR 2, acks=all; log workload,"
        f" kafka-python, {options.producers} processes, {options.rate:.0f} sends of one record a second wanted,"
        f" {options.seconds:.0f} s"
    )
    with LocalCluster() as cluster, tempfile.TemporaryDirectory() as directory:
        create(cluster, "operations", partitions, 3)
        config = {
            "run_id": "operations",
            "origin_ns": time.monotonic_ns(),
            "worker": 0,
            "workers": 1,
            "history": f"{directory}/history",
            "bootstrap": cluster.bootstrap,
            "topics": {"operations": partitions},
            "client": "kafka-python",
            "rate": options.rate,
            "producers": options.producers,
            "readers": options.readers,
            "batch_max": 1,
        }
        path = Path(directory) / "config.json"
        path.write_text(json.dumps(config))
        command = [sys.executable, "-m", "workloads.worker", str(path)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as worker:
            reports = counts(worker)
            started_s = time.monotonic()
            first = next(report for report in reports if time.monotonic() - started_s >= WARM_UP_S)
            first_s, first_ns, before = time.monotonic(), time.monotonic_ns(), cpu_of(list(cluster.nodes.values()))
            own_before = cpu_s(worker.pid)
            last = next(report for report in reports if time.monotonic() - first_s >= options.seconds)
            elapsed_s, after = time.monotonic() - first_s, cpu_of(list(cluster.nodes.values()))
            own = (cpu_s(worker.pid) - own_before) / elapsed_s
            worker.terminate()
            for _ in reports:
                pass
        acknowledged = last["sends"]["ok"] - first["sends"]["ok"]
        begin_ns = first_ns - config["origin_ns"]
        sends = load_table(Path(directory), "operations").table.to_pandas()
        sends = sends[(sends.kind == "send") & (sends.status == "ok") & (sends.invoked_ns > begin_ns)]
        latency_ms = (sends.completed_ns - sends.invoked_ns).to_numpy() / MILLISECOND_NS
        p50, p99 = np.percentile(latency_ms, [50, 99])
        print(f"acknowledged operations a second {acknowledged / elapsed_s:8.0f}   (aim 1000)")
        print(f"latency                          p50 {p50:.1f} ms, p99 {p99:.1f} ms   (aim p99 < 100 ms)")
        used = {number: (after[number] - before[number]) / elapsed_s for number in after}
        shares = ", ".join(f"{number}: {share:.0%}" for number, share in used.items())
        print(f"CPU of a core by node            {shares}; worker: {own:.0%}")
        print(f"CPU of the nodes per operation   {sum(used.values()) * elapsed_s / acknowledged * 1e3:.2f} ms")


# --- one partition ----------------------------------------------------------------------------------------


def flood(bootstrap: str, topic: str, value: bytes, seconds: float, pids: list[int]) -> tuple[float, float]:
    """Acknowledged records a second with librdkafka's default batches, and the servers' microseconds for each."""
    from confluent_kafka import Producer

    outcome = Counter()

    def delivered(error, _) -> None:
        outcome[error is None] += 1

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})

    def produce_for(duration_s: float) -> float:
        started_s = time.monotonic()
        while time.monotonic() - started_s < duration_s:
            for _ in range(1000):
                try:
                    producer.produce(topic, value, on_delivery=delivered)
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush(30)
        return time.monotonic() - started_s

    produce_for(1.0)
    outcome.clear()
    before_s = sum(map(cpu_s, pids))
    elapsed_s = produce_for(seconds)
    used_s = sum(map(cpu_s, pids)) - before_s
    assert not outcome[False], f"{outcome[False]} records were not stored"
    return outcome[True] / elapsed_s, used_s / outcome[True] * 1e6


@contextmanager
def bare_server() -> Iterator[tuple[str, int]]:
    """Run the bare server as a process of its own: its address and its process id."""
    with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        command = [sys.executable, "-m", "benchmarks.broker.bare_broker", str(port), f"{directory}/log"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as server:
            try:
                assert server.stdout is not None
                server.stdout.readline()
                yield f"127.0.0.1:{port}", server.pid
            finally:
                server.kill()


def partition(options: argparse.Namespace) -> None:
    """Measure records a second, and CPU time per record, which does not depend on other load of the machine."""
    print(
        f"one partition, confluent-kafka with default batches, {options.value_bytes}-byte values, acks=all, idempotence"
        f" off; the best of {options.rounds} rounds of {options.seconds:.0f} s"
    )
    value = b"x" * options.value_bytes
    rates: dict[str, float] = {}
    costs: dict[str, float] = {}
    with LocalCluster(min_insync_replicas="1") as cluster, bare_server() as (bare, bare_pid):
        for replicas in (1, 3):
            create(cluster, f"{TOPIC}-{replicas}", 1, replicas)
        real = ",".join(cluster.bootstrap)
        pids = [node.pid for node in cluster.nodes.values()]
        for _ in range(options.rounds):
            for name, bootstrap, topic, servers in (
                (BARE, bare, TOPIC, [bare_pid]),
                ("RF 1", real, f"{TOPIC}-1", pids),
                ("RF 3", real, f"{TOPIC}-3", pids),
            ):
                rate, cost_us = flood(bootstrap, topic, value, options.seconds, servers)
                rates[name] = max(rates.get(name, 0.0), rate)
                costs[name] = min(costs.get(name, cost_us), cost_us)
    for name, rate in rates.items():
        print(
            f"{name:20} {rate:9.0f} records/s {rate * len(value) / 1e6:6.1f} MB/s"
            f" {rate / rates[BARE]:6.0%}{AIMS[name]:11}"
            f" CPU of all servers {costs[name]:5.2f} us a record"
        )


# --- idle -------------------------------------------------------------------------------------------------


def idle(options: argparse.Namespace) -> None:
    """Measure the CPU time of heartbeats, metadata fetches and replica fetches in an idle cluster."""
    print(f"3 brokers, {options.partitions} partitions, RF 3, default timeouts, no clients, {options.seconds:.0f} s")
    settings = {"broker_session_timeout_ms": "9000", "broker_heartbeat_interval_ms": "2000"}
    with LocalCluster(**settings) as cluster:
        create(cluster, "idle", options.partitions, 3)
        time.sleep(WARM_UP_S)
        leads = Counter(each["leader"] for each in cluster.partitions("idle"))
        nodes = list(cluster.nodes.values())
        before, started_s = cpu_of(nodes), time.monotonic()
        time.sleep(options.seconds)
        elapsed_s, after = time.monotonic() - started_s, cpu_of(nodes)
        for node in nodes:
            used = (after[node.number] - before[node.number]) / elapsed_s
            print(f"node {node.number:3}  {used:6.1%} of a core, leads {leads[node.number]} partitions   (aim < 15%)")


# --- failover ---------------------------------------------------------------------------------------------


def until_acknowledged(send: Callable[[], object]) -> float:
    """Seconds until a send succeeds."""
    started_s = time.monotonic()
    while True:
        try:
            send()
            return time.monotonic() - started_s
        except KafkaError:
            continue


def failover(options: argparse.Namespace) -> None:
    """Kill a leader, and measure how soon a client with short timeouts can write again."""
    session_ms = 3000
    print(f"3 brokers, one partition, RF 3, min ISR 2, acks=all, kafka-python; session timeout {session_ms} ms")
    settings = {"broker_session_timeout_ms": str(session_ms), "broker_heartbeat_interval_ms": str(session_ms // 5)}
    with LocalCluster(**settings) as cluster:
        create(cluster, "failover", 1, 3)
        times = []
        for _ in range(options.rounds):
            producer = KafkaProducer(
                bootstrap_servers=cluster.bootstrap, acks="all", retry_backoff_ms=20, request_timeout_ms=1000
            )
            producer.send("failover", VALUE).get(10)
            leader = cluster.nodes[cluster.leader_of("failover")]
            leader.kill()
            elapsed_s = until_acknowledged(lambda: producer.send("failover", VALUE).get(30))  # noqa: B023
            times.append(elapsed_s)
            print(f"  {elapsed_s:.2f} s = {elapsed_s * 1000 / session_ms:.2f} session timeouts", flush=True)
            producer.close(0)
            leader.start()
            cluster.wait_until_ready()
            cluster.wait_until_whole("failover")
            eventually(lambda: cluster.leader_of("failover") > 0, 30, "there is a leader")
        print(f"median {statistics.median(times) * 1000 / session_ms:.2f} session timeouts   (aim 2 at most)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function, seconds in ((operations, 15.0), (partition, 2.0), (idle, 10.0), (failover, 0.0)):
        command = commands.add_parser(function.__name__, help=function.__doc__)
        command.set_defaults(run=function)
        if seconds:
            command.add_argument("--seconds", type=float, default=seconds)
        if function is operations:
            command.add_argument("--rate", type=float, default=1300.0)
            command.add_argument("--producers", type=int, default=16)
            command.add_argument("--readers", type=int, default=0)
        if function is idle:
            command.add_argument("--partitions", type=int, default=300)
        if function is partition:
            command.add_argument("--value-bytes", type=int, default=len(VALUE))
        if function in (partition, failover):
            command.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
