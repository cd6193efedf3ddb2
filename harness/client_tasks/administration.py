"""Performs one administrative operation, on the clients' network.

`python -m harness.client_tasks.administration CONFIG` with the configuration as JSON.

`{"bootstrap": […], "do": "create-topic" …, "topic": …, …}`. Exit status 0 when the cluster has accepted the operation,
with its answer, if any, as a JSON line on standard output; otherwise 1, and one line on standard error.
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


def administer(admin: KafkaAdminClient, config: Mapping[str, Any]) -> object:
    """Perform the operation. Raises `KafkaError`."""
    topic = config["topic"]
    match config["do"]:
        case "create-topic":
            admin.create_topics([NewTopic(topic, config["partitions"], config["replication_factor"])])
        case "delete-topic":
            admin.delete_topics([topic])
        case "add-partitions":
            admin.create_partitions({topic: NewPartitions(config["total"])})
        case "reassign":
            admin.alter_partition_reassignments({TopicPartition(topic, config["partition"]): config["replicas"]})
        case "elect":
            admin.elect_leaders(ElectionType.PREFERRED, {topic: [config["partition"]]}, raise_errors=False)
        case "setting":
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            return _value(admin.describe_configs([resource], config_filter="all"), config["name"])
        case "set":
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {config["name"]: config["value"]})
            admin.alter_configs([resource])
    return None


def _value(described: object, name: str) -> str | None:
    """Find a setting in any of the forms in which client versions describe settings."""
    if isinstance(described, Mapping):
        if name in described:
            found = described[name]
            return str(found["value"] if isinstance(found, Mapping) else getattr(found, "value", found))
        described = list(described.values())
    if isinstance(described, list | tuple):
        return next((found for each in described if (found := _value(each, name)) is not None), None)
    return None


def main(arguments: Sequence[str]) -> int:
    """Perform the operation."""
    config = json.loads(arguments[0])
    try:
        admin = KafkaAdminClient(bootstrap_servers=config["bootstrap"], request_timeout_ms=REQUEST_TIMEOUT_MS)
        try:
            print(json.dumps(administer(admin, config)))
        finally:
            admin.close()
    except KafkaError as error:
        print(f"expected to {config['do']} {config['topic']}, found: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
