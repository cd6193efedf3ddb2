"""Performs one administrative operation on the system under test, as a client process on the clients' network.

`python -m harness.systems.administration CONFIG` with the configuration as JSON:

`{"bootstrap": […], "do": "create-topic" …, "topic": …, …}`; `client_config` names the file for TLS and SASL. Exit
status 0 when the cluster has accepted the operation, with its answer, if any, as a JSON line on standard output;
otherwise 1, and one line on standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import (
    GroupIdNotFoundError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.admin import ElectionType

from common.security import SecurityError, read_security

REQUEST_TIMEOUT_MS = 5_000
RETRY_S = 0.2

CREATE_WORKLOAD_TOPIC = "create-workload-topic"
"""Creates the topic of the workload; unlike the other operations it is repeated until it succeeds."""

REMOVE_RUN = "remove-run"
"""Removes the topic and the groups of a run; it is repeated, too."""


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
            reassign(admin, topic, config["partition"], config["replicas"])
        case "elect":
            admin.elect_leaders(ElectionType.PREFERRED, {topic: [config["partition"]]}, raise_errors=False)
        case "setting":
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            return _value(admin.describe_configs([resource], config_filter="all"), config["name"])
        case "set":
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {config["name"]: config["value"]})
            admin.alter_configs([resource])
    return None


def reassign(admin: KafkaAdminClient, topic: str, partition: int, replicas: Sequence[int]) -> None:
    """Request these replicas for a partition. Raises `KafkaError` if that is refused, which the client only returns."""
    key = TopicPartition(topic, partition)
    error = admin.alter_partition_reassignments({key: list(replicas)})[key]
    if error is not None:
        raise error


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


def create_workload_topic(config: Mapping[str, Any]) -> None:
    """Create `topic` with `partitions`, `replication_factor` and `settings`, within `timeout_s`.

    Then ask the coordinators of `groups`: a cluster creates the topic in which it keeps groups when one is asked for,
    and needs all its brokers for that. A cluster that has just started may refuse at first; the last error is raised
    when the time is over.
    """
    topic = NewTopic(
        name=config["topic"],
        num_partitions=config["partitions"],
        replication_factor=config["replication_factor"],
        topic_configs=config["settings"],
    )

    def create(admin: KafkaAdminClient) -> None:
        with suppress(TopicAlreadyExistsError):  # created by an attempt whose answer was lost
            admin.create_topics([topic])
        for group in config["groups"]:
            admin.list_group_offsets({group: None})

    _repeat(config, create)


def remove_run(config: Mapping[str, Any]) -> None:
    """Delete `topic` and `groups`, as far as they exist, within `timeout_s`. The last error is raised."""

    def remove(admin: KafkaAdminClient) -> None:
        with suppress(UnknownTopicOrPartitionError):
            admin.delete_topics([config["topic"]])
        for group in config["groups"]:
            with suppress(GroupIdNotFoundError):
                admin.delete_groups([group])

    _repeat(config, remove)


def _repeat(config: Mapping[str, Any], act: Callable[[KafkaAdminClient], None]) -> None:
    """Act until no error is raised; the last one is raised when `timeout_s` is over."""
    deadline = time.monotonic() + config["timeout_s"]
    while True:
        try:
            with _connected(config) as admin:
                act(admin)
        except KafkaError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_S)
        else:
            return


@contextmanager
def _connected(config: Mapping[str, Any]) -> Iterator[KafkaAdminClient]:
    security = read_security(config.get("client_config", ""))
    admin = KafkaAdminClient(
        bootstrap_servers=config["bootstrap"], request_timeout_ms=REQUEST_TIMEOUT_MS, **security.python_options()
    )
    try:
        yield admin
    finally:
        admin.close()


def main(arguments: Sequence[str]) -> int:
    """Perform the operation."""
    config = json.loads(arguments[0])
    try:
        if config["do"] == CREATE_WORKLOAD_TOPIC:
            create_workload_topic(config)
        elif config["do"] == REMOVE_RUN:
            remove_run(config)
        else:
            with _connected(config) as admin:
                print(json.dumps(administer(admin, config)))
    except SecurityError as error:
        print(error, file=sys.stderr)
        return 1
    except KafkaError as error:
        print(f"expected to {config['do']} {config['topic']}, found: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
