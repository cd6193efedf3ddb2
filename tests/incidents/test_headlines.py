"""The headline of an incident speaks of one record as of one, and of several as of several."""

from __future__ import annotations

import pytest

from incidents.headlines import headline
from incidents.model import Cause, Span


@pytest.mark.parametrize(
    ("anomaly", "number", "expected"),
    [
        ("dirty-read", 1, "1 record of log-0 (offset 4) was read before it was committed: it did so."),
        ("dirty-read", 2, "2 records of log-0 (offset 4) were read before they were committed: it did so."),
        ("phantom-read", 1, "1 record of log-0 (offset 4) was read although nobody had sent it: it did so."),
        ("aborted-read", 2, "2 records of log-0 (offset 4) were read although their writes had failed: it did so."),
        ("aborted-read", 1, "1 record of log-0 (offset 4) was read although its write had failed: it did so."),
    ],
)
def test_one_record_and_several(anomaly: str, number: int, expected: str) -> None:
    assert headline({anomaly: (number, 0)}, [Span("log", 0, 4, 4)], [Cause("kind", "it did so")]) == expected
