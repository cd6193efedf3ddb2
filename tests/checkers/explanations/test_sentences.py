"""An explanation says of a record only what clients saw of it."""

import pytest

from checkers.explanations.sentences import EXPLANATIONS

S = 1_000_000_000


@pytest.mark.parametrize(("status", "known"), [("ok", "acknowledged"), ("info", "read")])
def test_a_write_without_an_answer_was_not_acknowledged_to_those_who_read_it(status, known):
    row = {"topic": "t", "partition": 0, "offset": 3, "broker": 1, "process": 4}
    witness = {"offset": 5, "completed_ns": 2 * S, "node": 1, "value": 7, "status": status}
    details = {"operation": {"process": 4, "invoked_ns": 3 * S}, "asked": "latest", "witness": witness}
    assert EXPLANATIONS["stale-read"](row, details).endswith(
        f"although value 7 had been {known} at offset 5 by broker 1 at 2.000 s."
    )


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("poll", "Process 4 polled t-0 at 3.000 s, and the answer by broker 1 showed nothing from 3 on, although"),
        ("latest", "Process 4 asked for the end of t-0 at 3.000 s, and the answer by broker 1 was 3, although"),
    ],
)
def test_a_poll_has_not_asked_for_the_end(asked, told):
    row = {"topic": "t", "partition": 0, "offset": 3, "broker": 1, "process": 4}
    witness = {"offset": 5, "completed_ns": 2 * S, "node": 1, "process": 6}
    details = {"operation": {"process": 4, "invoked_ns": 3 * S}, "asked": asked, "witness": witness}
    assert EXPLANATIONS["end-offset-regression"](row, details).startswith(told)
