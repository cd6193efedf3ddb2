"""Performs one act of administration, from where clients are.

`python -m harness.client_tasks.administration CONFIG` with the configuration as JSON.

`{"bootstrap": […], "do": "create-topic" …, "topic": …, …}`. Exit status 0 when the cluster has taken the order, and its
answer, if there is one, as a JSON line on standard output; otherwise 1, and one line on standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import KafkaError
from kafka.protocol.admin import ElectionType

REQUEST_TIMEOUT_MS = 5_000


def administer(admin: KafkaAdminClient, orders: Mapping[str, Any]) -> object:
    """Carry out the orders. Raises `KafkaError`."""
    topic = orders["topic"]
    match orders["do"]:
        case "create-topic":
            admin.create_topics([NewTopic(topic, orders["partitions"], orders["replication_factor"])])
        case "delete-topic":
            admin.delete_topics([topic])
        case "add-partitions":
            admin.create_partitions({topic: NewPartitions(orders["total"])})
        case "reassign":
            admin.alter_partition_reassignments({TopicPartition(topic, orders["partition"]): orders["replicas"]})
        case "elect":
            admin.elect_leaders(ElectionType.PREFERRED, {topic: [orders["partition"]]}, raise_errors=False)
        case "setting":
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            return _value(admin.describe_configs([resource], config_filter="all"), orders["name"])
        case "set":
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {orders["name"]: orders["value"]})
            admin.alter_configs([resource])
    return None


def _value(described: object, name: str) -> str | None:
    """Find a setting in whatever shape the client describes settings."""
    if isinstance(described, Mapping):
        if name in described:
            found = described[name]
            return str(found["value"] if isinstance(found, Mapping) else getattr(found, "value", found))
        described = list(described.values())
    if isinstance(described, list | tuple):
        return next((found for each in described if (found := _value(each, name)) is not None), None)
    return None


def main(arguments: Sequence[str]) -> int:
    """Carry out the orders."""
    orders = json.loads(arguments[0])
    try:
        admin = KafkaAdminClient(bootstrap_servers=orders["bootstrap"], request_timeout_ms=REQUEST_TIMEOUT_MS)
        try:
            print(json.dumps(administer(admin, orders)))
        finally:
            admin.close()
    except KafkaError as error:
        print(f"expected to {orders['do']} {orders['topic']}, found: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
