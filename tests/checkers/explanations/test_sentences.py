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
