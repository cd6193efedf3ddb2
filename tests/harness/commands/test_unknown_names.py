"""A wrong name is answered with what was expected, what was found, and which name was probably meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.names import LISTED_MAX, closest_name, unknown

FEW = ("log", "register", "queue")
MANY = tuple(f"name-{number}" for number in range(LISTED_MAX + 1))


@pytest.mark.parametrize(
    ("found", "known", "further", "expected"),
    [
        ("quue", FEW, (), "expected one of log, register, queue, found 'quue'; did you mean queue?"),
        ("bank", FEW, ("a workload",), "expected a workload, one of log, register, queue, found 'bank'"),
        ("x", ["only"], (), "expected only, found 'x'"),
        ("x", [], ("a schedule",), "expected a schedule, of which there are none, found 'x'"),
        ("zzz", MANY, ("a name", "`harrow names`"), "expected a name (see `harrow names`), found 'zzz'"),
        ("nam-3", MANY, ("a thing",), "expected a thing, found 'nam-3'; did you mean name-3?"),
        (7, FEW, (), "expected one of log, register, queue, found 7"),
    ],
)
def test_the_line(found: object, known: list[str], further: tuple[str, ...], expected: str) -> None:
    assert unknown(found, known, *further) == expected


@pytest.mark.parametrize(
    ("found", "near"),
    [
        ("Page_Cache_Loss", "page-cache-loss"),
        ("kafka", "apache-kafka"),  # a part of it
        ("pausee", "pause"),
        ("flood", None),
        ("", None),
    ],
)
def test_what_was_meant(found: str, near: str | None) -> None:
    assert closest_name(found, ["page-cache-loss", "apache-kafka", "pause"]) == near


@given(st.text(), st.lists(st.text(), max_size=20))
def test_any_text_gives_a_line_and_a_name_that_exists(found: str, known: list[str]) -> None:
    assert repr(found) in unknown(found, known)
    assert closest_name(found, known) in (None, *known)
