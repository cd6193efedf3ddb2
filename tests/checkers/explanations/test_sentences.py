"""An explanation says of a record only what clients saw of it."""

from types import SimpleNamespace

import pytest

from checkers.explanations.explanation import _on_contract
from checkers.explanations.sentences import EXPLANATIONS
from checkers.input.run_facts import RecordedFault

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
        ("poll", "Client 4 polled t-0 at 3.000 s, and the answer by broker 1 told the high watermark 3, although"),
        ("latest", "Client 4 asked for the end of t-0 at 3.000 s, and the answer by broker 1 was 3, although"),
    ],
)
def test_a_poll_has_not_asked_for_the_end(asked, told):
    row = {"topic": "t", "partition": 0, "offset": 3, "broker": 1, "process": 4}
    witness = {"offset": 5, "completed_ns": 2 * S, "node": 1, "process": 6}
    details = {"operation": {"process": 4, "invoked_ns": 3 * S}, "asked": asked, "witness": witness}
    assert EXPLANATIONS["end-offset-regression"](row, details).startswith(told)


def _faults(*kinds):
    hits = {"started_ns": 4 * S, "ended_ns": 5 * S, "crashed_by_ns": 4 * S, "took_hold": True, "healed": True}
    return tuple(
        RecordedFault(number, kind, (2,), lossy=kind != "kill", **hits) for number, kind in enumerate(kinds, 1)
    )


@pytest.mark.parametrize(
    ("minimum", "unclean", "faults", "told"),
    [
        (
            1, False, _faults("kill", "page-cache-loss"),
            ("with min.insync.replicas=1 no record need last once a replica may lack what it had written, as after"
            " #2 page-cache-loss."),
        ),
        (
            2, False, _faults(*["page-cache-loss"] * 2),
            ("with min.insync.replicas=2 a record lasts while at most one replica at a time lacks what it had written,"
            " as after #1 page-cache-loss and #2 page-cache-loss."),
        ),
        (
            3, True, (),
            ("with min.insync.replicas=3 a record lasts while at most 2 replicas at once lack what it had written; an"
            " unclean election, which the settings allow, may also take it."),
        ),
    ],
)  # fmt: skip
def test_why_a_loss_is_within_the_contract_names_the_setting_and_the_faults_that_take_records(
    minimum, unclean, faults, told
):
    row = {"anomaly": "inconsistent-offset", "topic": "t", "partition": 0, "offset": 3, "within_contract": True}
    facts = SimpleNamespace(
        settings=SimpleNamespace(min_insync_replicas=minimum, unclean_election=unclean), faults=faults
    )
    assert _on_contract(row, -1, facts) == f"Within the contract: {told}"
    assert not _on_contract({**row, "within_contract": False}, -1, facts)
