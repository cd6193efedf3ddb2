"""The headline of an incident speaks of one record as of one, and of several as of several."""

from __future__ import annotations

import pytest

from incidents.headlines import headline
from incidents.model import Cause, Span


@pytest.mark.parametrize(
    ("anomaly", "number", "expected"),
    [
        ("dirty-read", 1, "1 read of log-0 (offset 4) was given records that were not committed: it did so."),
        ("dirty-read", 2, "2 reads of log-0 (offset 4) were given records that were not committed: it did so."),
        ("phantom-read", 1, "1 record of log-0 (offset 4) was read although nobody had sent it: it did so."),
        ("aborted-read", 2, "2 records of log-0 (offset 4) were read although their writes had failed: it did so."),
        ("aborted-read", 1, "1 record of log-0 (offset 4) was read although its write had failed: it did so."),
    ],
)
def test_one_record_and_several(anomaly: str, number: int, expected: str) -> None:
    assert headline({anomaly: (number, 0)}, [Span("log", 0, 4, 4)], [Cause("kind", "it did so")]) == expected


def test_a_sentence_about_brokers_keeps_its_plural_beside_one_anomaly() -> None:
    cause = Cause("no-progress", "brokers 1 and 2 have caught up, and their leader does not take them in")
    assert headline({"unavailable": (1, 0)}, [Span("log", 0)], [cause]) == (
        "log-0 did not recover: brokers 1 and 2 have caught up, and their leader does not take them in."
    )


def test_a_number_that_may_be_larger_says_at_least() -> None:
    spans, causes = [Span("log", 0, 4, 7)], [Cause("kind", "it did so")]
    names = ["lost-acked-write", "lost-commit"]
    assert headline({names[0]: (3, 0)}, spans, causes, at_least=names).startswith("At least 3 acknowledged")
    assert "(at least 3) in log-0" in headline({names[1]: (3, 0)}, spans[:1], causes, at_least=names)
    assert headline({names[0]: (3, 0)}, spans, causes, at_least=names[1:]).startswith("3 acknowledged")


def test_writes_that_were_lost_within_the_contract_are_told_beside_violations_of_other_kinds() -> None:
    spans, causes = [Span("log", 0, 4, 7)], [Cause("kind", "it did so")]
    others = {"end-offset-regression": (1, 0), "lost-acked-write": (0, 4)}
    told = "1 answer about the end of log-0 (offsets 4\N{EN DASH}7) was below an earlier one"
    assert headline(others, spans, causes) == (
        f"{told}, and 4 acknowledged writes were lost within the contract: it did so."
    )
    assert headline({**others, "lost-acked-write": (0, 0)}, spans, causes) == f"{told}: it did so."
    at_least = headline(others, spans, causes, at_least=["lost-acked-write"])
    assert at_least.startswith(f"{told}, and at least 4 acknowledged writes were lost")
    assert "were lost within" not in headline({**others, "end-offset-regression": (0, 1)}, spans, causes)


def test_stretches_that_have_all_of_them_are_not_called_those_of_some() -> None:
    spans = [Span("log", number, 4, 7) for number in range(2)]
    assert headline({"lost-acked-write": (8, 0)}, spans, [], first=4) == (
        "8 acknowledged writes to 2 partitions (offsets of log-0 4\N{EN DASH}7, log-1 4\N{EN DASH}7) were lost."
    )


def test_the_offsets_of_some_are_not_those_of_all() -> None:
    spans = [Span("log", number, 4, 7) for number in range(2)]
    assert headline({"lost-acked-write": (9, 0)}, spans, [], first=8) == (
        "9 acknowledged writes to several partitions (8 of them: offsets of log-0 4\N{EN DASH}7, log-1 4\N{EN DASH}7)"
        " were lost."
    )


@pytest.mark.parametrize(
    ("number", "partitions", "place"),
    [
        (4, 1, "log-0 (offsets 4\N{EN DASH}7)"),
        (3, 1, "log-0 (among offsets 4\N{EN DASH}7)"),
        (7, 2, "2 partitions (among offsets of log-0 4\N{EN DASH}7, log-1 4\N{EN DASH}7)"),
    ],
)
def test_a_stretch_with_other_records_in_it_is_told_as_one(number: int, partitions: int, place: str) -> None:
    spans = [Span("log", partition, 4, 7) for partition in range(partitions)]
    assert headline({"lost-read": (number, 0)}, spans, []) == f"{number} records of {place} were read and later lost."


def test_what_came_later_has_a_verb() -> None:
    words = headline(
        {"P-25": (1, 0), "two-leaders": (2, 0)}, [Span("log", 0)], [Cause("kind", "so")], found_first="P-25"
    )
    assert words == "So. In the end there were signs of two leaders in one leader epoch (2) in log-0."
