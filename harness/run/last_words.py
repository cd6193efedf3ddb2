"""Finds, in the last lines of a node's logs, what it said of its own end: the message of its exception, not its frames.

    ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)
    java.lang.RuntimeException: No meta.properties found
        at kafka.server.KafkaServer.start(KafkaServer.scala:1)
    Caused by: java.io.IOException: Input/output error

becomes "java.lang.RuntimeException: No meta.properties found; caused by java.io.IOException: Input/output error".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

LINES: Final = 200
"""So many lines of each log are read: the frames of an exception may be a hundred."""

CHARACTERS_MAX: Final = 400

_THREAD: Final = r'(?:Exception in thread "[^"]*" )?'
_NAME: Final = r"(?:[A-Za-z_$][\w$]*\.)*[A-Z][\w$]*(?:Exception|Error|Failure)"
_EXCEPTION: Final = re.compile(rf"{_THREAD}(?P<what>{_NAME}(?::\s.*)?)")
_CAUSE: Final = re.compile(rf"Caused by: (?P<what>{_NAME}(?::\s.*)?)")
_FRAME: Final = re.compile(r"\s+at |\s*\.\.\. \d+ more|\s+File \"|Traceback \(|\s+Suppressed: |\s{4,}")
_GRAVE: Final = re.compile(r"\b(?:ERROR|FATAL|CRITICAL|PANIC|panic)\b")


def last_words(lines: Sequence[str]) -> str:
    """Return the message of the last exception with its last cause, else the last grave line, else the last; one line.

    Empty if the log is.
    """
    telling = [line.rstrip() for line in lines if line.strip() and not _FRAME.match(line)]
    for number in range(len(telling) - 1, -1, -1):
        if (thrown := _EXCEPTION.fullmatch(telling[number])) is not None:
            causes = [found["what"] for line in telling[number:] if (found := _CAUSE.fullmatch(line)) is not None]
            return _shortened("; caused by ".join([thrown["what"], *causes[-1:]]))
    grave = [line for line in telling if _GRAVE.search(line)]
    return _shortened(next(iter((grave or telling)[-1:]), ""))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CHARACTERS_MAX else f"{line[:CHARACTERS_MAX]}…"
