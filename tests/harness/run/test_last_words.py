"""What is taken from a node's log as its last words."""

from __future__ import annotations

import pytest

from harness.run.last_words import CHARACTERS_MAX, last_words

KAFKA = """
[2026-01-01 00:00:00,000] INFO Awaiting socket connections (kafka.network.DataPlaneAcceptor)
java.lang.IllegalStateException: an earlier one, which it survived
\tat kafka.server.Old.start(Old.scala:1)
[2026-01-01 00:00:01,000] ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)
java.lang.RuntimeException: No readable meta.properties files found.
\tat org.apache.kafka.metadata.properties.MetaPropertiesEnsemble.verify(MetaPropertiesEnsemble.java:503)
\tat kafka.Kafka.main(Kafka.scala)
Caused by: java.io.UncheckedIOException: while it was read
\t... 7 more
Caused by: java.io.IOException: bootstrap.checkpoint has 0 bytes
\tat java.base/sun.nio.ch.FileChannelImpl.map(FileChannelImpl.java:1)
\t... 12 more
[2026-01-01 00:00:01,001] INFO App info kafka.server for 1 unregistered (org.apache.kafka.common.utils.AppInfoParser)
"""
KAFKAS_WORDS = (
    "java.lang.RuntimeException: No readable meta.properties files found.; "
    "caused by java.io.IOException: bootstrap.checkpoint has 0 bytes"
)
PYTHON = """
Traceback (most recent call last):
  File "node.py", line 3, in <module>
    raise ValueError("no disk")
node.errors.DiskError: no disk
"""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (KAFKA, KAFKAS_WORDS),
        (PYTHON, "node.errors.DiskError: no disk"),
        (
            'Exception in thread "main" java.lang.OutOfMemoryError: heap\n\tat a.b(C.java:1)',
            "java.lang.OutOfMemoryError: heap",
        ),
        ("java.lang.StackOverflowError\n\tat a.b(C.java:1)", "java.lang.StackOverflowError"),
        ("INFO up\nERROR cannot open the log\nINFO down", "ERROR cannot open the log"),
        ("one\ntwo\n\n", "two"),
        ("broker: no Error: here is a sentence", "broker: no Error: here is a sentence"),
        ("", ""),
    ],
)
def test_the_message_of_the_last_exception_counts_and_no_frame(log: str, expected: str) -> None:
    assert last_words(log.splitlines()) == expected


def test_long_words_are_one_short_line() -> None:
    words = last_words([f"a.BError: {'x ' * CHARACTERS_MAX}"])
    assert words.endswith("…")
    assert len(words) == CHARACTERS_MAX + 1
