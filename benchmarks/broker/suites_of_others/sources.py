"""What all suites share: the error that ends a run, and the version of Kafka that they are told."""

from __future__ import annotations

KAFKA_VERSION = "4.1.0"
"""The suites choose tests by the broker's version. Harrow answers the requests of Kafka 4.1."""


class SuiteFailedError(Exception):
    """A suite could not be run; the text is one line: expected, found, what to do."""
