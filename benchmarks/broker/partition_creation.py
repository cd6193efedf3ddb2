"""Measures what the creation of many partitions costs: `python -m benchmarks.broker.partition_creation [PARTITIONS]`.

Three brokers and a controller as processes on this machine, one topic of 300 partitions with three replicas, all
created in one request. An fsync of a file or directory is counted by `harrow_fsyncs_total`. Three steps are measured:
until every replica exists and has a role; the first record in each partition; an interval of checkpoints without work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tests.support.local_cluster import LocalCluster, LocalNode, eventually

TOPIC = "many"
LIMIT_S = 120
IDLE_S = 6  # more than an interval of checkpoints
KINDS = {"default settings": {}, "flush of every record": {"log_flush_interval_messages": "1"}}


def fsyncs(node: LocalNode) -> tuple[float, float]:
    """How many fsyncs a node has done, and the seconds that they took."""
    found = dict(line.split(" ") for line in node.ask("/metrics").decode().splitlines() if not line.startswith("#"))
    return float(found["harrow_fsyncs_total"]), float(found["harrow_fsync_seconds_total"])


def all_exist(cluster: LocalCluster, partitions: int) -> bool:
    """Whether every broker has all its replicas, with a role."""
    replicas = [[each for each in node.replicas() if each["topic"] == TOPIC] for node in cluster.brokers]
    return all(len(own) == partitions and all(each["role"] != "none" for each in own) for own in replicas)


def create(cluster: LocalCluster, partitions: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic(TOPIC, partitions, 3)], timeout_ms=LIMIT_S * 1_000)
    eventually(lambda: all_exist(cluster, partitions), LIMIT_S, "all replicas exist")
    admin.close()


def write(cluster: LocalCluster, partitions: int) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", retries=10)
    for future in [producer.send(TOPIC, b"x", partition=number) for number in range(partitions)]:
        future.get(LIMIT_S)
    producer.close()


def measured(cluster: LocalCluster, step: str, work: Callable[[], None]) -> None:
    before = [fsyncs(node) for node in cluster.brokers]
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    after = [fsyncs(node) for node in cluster.brokers]
    counts = [new[0] - old[0] for old, new in zip(before, after, strict=True)]
    seconds = [new[1] - old[1] for old, new in zip(before, after, strict=True)]
    print(
        f"  {step:34} {took:6.1f} s   fsyncs of each broker: {', '.join(f'{count:.0f}' for count in counts)}"
        f"   in {max(seconds):.2f} s at most"
    )


def main() -> None:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print(f"3 brokers, {partitions} partitions, RF 3")
    for kind, settings in KINDS.items():
        print(kind)
        with LocalCluster(**settings) as cluster:
            measured(cluster, "all created", partial(create, cluster, partitions))
            measured(cluster, "one record in each, acknowledged", partial(write, cluster, partitions))
            measured(cluster, "nothing", partial(time.sleep, IDLE_S))


if __name__ == "__main__":
    main()
