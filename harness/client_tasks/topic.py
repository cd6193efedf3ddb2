"""Creates the workload's topic, on the clients' network.

`python -m harness.client_tasks.topic CONFIG` with the configuration as JSON.

Exit status 0 when the topic exists; otherwise 1, and one line on standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

REQUEST_TIMEOUT_MS = 5_000
RETRY_S = 0.2


def create(config: Mapping[str, Any]) -> None:
    """Create `topic` with `partitions`, `replication_factor` and `min_insync_replicas`, within `timeout_s`.

    A cluster that has just started may refuse at first; the last error is raised when the time is over.
    """
    deadline = time.monotonic() + config["timeout_s"]
    topic = NewTopic(
        name=config["topic"],
        num_partitions=config["partitions"],
        replication_factor=config["replication_factor"],
        topic_configs={"min.insync.replicas": str(config["min_insync_replicas"])},
    )
    while True:
        try:
            _create_topic(config["bootstrap"], topic)
        except TopicAlreadyExistsError:
            return  # created by an attempt whose answer was lost
        except KafkaError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_S)
        else:
            return


def _create_topic(bootstrap: Sequence[str], topic: NewTopic) -> None:
    admin = KafkaAdminClient(bootstrap_servers=list(bootstrap), request_timeout_ms=REQUEST_TIMEOUT_MS)
    try:
        admin.create_topics([topic])
    finally:
        admin.close()


def main(arguments: Sequence[str]) -> int:
    """Create the topic."""
    config = json.loads(arguments[0])
    try:
        create(config)
    except KafkaError as error:
        print(f"expected to create topic {config['topic']}, found: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
