"""What all suites share: the error that ends a run, and the versions of Kafka that they are told."""

from __future__ import annotations

KAFKA_VERSIONS = {"librdkafka": "4.1.0", "kafka-python": "4.2.0", "aiokafka": "4.1.0"}
"""The version of Kafka that each suite is told, by which it chooses tests.

kafka-python finds 4.2 by itself in the requests that Harrow answers; librdkafka has tests of share groups from 4.2 on.
"""


class SuiteFailedError(Exception):
    """A suite could not be run; the text is one line: expected, found, what to do."""
