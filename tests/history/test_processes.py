"""Processes have names that a reader can tell apart, whatever their numbers are."""

from __future__ import annotations

import pytest

from history.processes import ADMINISTRATOR, MEMBERS_FROM, PROCESSES_PER_TRAFFIC, process_name


@pytest.mark.parametrize(
    ("process", "name"),
    [
        (3, "client 3"),
        (MEMBERS_FROM, "member 0"),
        (MEMBERS_FROM + 16, "member 16"),
        (ADMINISTRATOR, "the administrator"),
        (ADMINISTRATOR + 2 * PROCESSES_PER_TRAFFIC + 1, "client 1 of topic traffic 2"),
        (None, "a client"),
    ],
)
def test_a_process_is_named_by_what_it_does(process: int | None, name: str) -> None:
    assert process_name(process) == name
