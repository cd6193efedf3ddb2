"""Jepsen's kinds: the shortest history of each, and its near misses."""

from __future__ import annotations

import json

import pytest

from checkers.foreign.formats import json_rows
from checkers.foreign.jepsen_kafka import judge_kafka
from checkers.foreign.operations import KafkaHistory, kafka_history

Step = tuple[int, str, str, object]
"""Process, type, function, value: an operation that is invoked and completed before the next one begins."""


def history(*steps: Step) -> KafkaHistory:
    lines = []
    for process, kind, f, value in steps:
        lines.append({"process": process, "type": "invoke", "f": f, "value": None})
        lines.append({"process": process, "type": kind, "f": f, "value": value})
    return kafka_history(row for row in json_rows(json.dumps(line) for line in lines) if hasattr(row, "f"))


def kinds(*steps: Step) -> dict[str, int]:
    found = history(*steps)
    assert not found.malformed
    # What one operation after another implies of cycles has tests of its own.
    return {kind: number for kind, number in judge_kafka(found.operations).counts.items() if not kind.startswith("G")}


def sent(*records: tuple[int | None, object], process: int = 0, kind: str = "ok", key: str = "x") -> Step:
    return (process, kind, "send", [["send", key, offset, value] for offset, value in records])


def polled(*records: tuple[int, object], process: int = 1, kind: str = "ok", key: str = "x") -> Step:
    return (process, kind, "poll", [["poll", [[key, [list(record) for record in records]]]]])


ABC = sent((0, "a"), (1, "b"), (2, "c"))

CASES = {
    "in order": ([ABC, polled((0, "a"), (1, "b")), polled((2, "c"))], {}),
    "gaps between offsets": ([sent((0, "a"), (7, "b")), polled((0, "a"), (7, "b"))], {}),
    "inconsistent-offsets": (
        [sent((0, "a")), sent((0, "b"), process=2), polled((0, "b")), polled((0, "a"), process=3)],
        {"inconsistent-offsets": 1},
    ),
    "one value known twice at one offset": ([sent((0, "a")), polled((0, "a")), polled((0, "a"), process=2)], {}),
    "duplicate": ([sent((0, "a")), polled((0, "a"), (3, "a"))], {"duplicate": 1, "int-nonmonotonic-poll": 1}),
    "G1a": ([sent((None, "a"), kind="fail"), polled((0, "a"))], {}),
    "lost-write": ([sent((0, "a")), sent((1, "b")), polled((1, "b"))], {"lost-write": 1, "unseen": 1}),
    "unseen behind what was read": ([sent((0, "a")), sent((1, "b")), polled((0, "a"))], {"unseen": 1}),
    "a send of unknown outcome may be lost": ([sent((None, "a"), kind="info"), sent((1, "b")), polled((1, "b"))], {}),
    "int-poll-skip": ([ABC, polled((0, "a"), (2, "c")), polled((1, "b"), process=2)], {"int-poll-skip": 1}),
    "int-nonmonotonic-poll": (
        [ABC, polled((1, "b"), (0, "a")), polled((2, "c"), process=2)],
        {"int-nonmonotonic-poll": 1},
    ),
    "poll-skip": ([ABC, polled((0, "a")), polled((2, "c")), polled((1, "b"), process=2)], {"poll-skip": 1}),
    "nonmonotonic-poll": ([ABC, polled((0, "a"), (1, "b"), (2, "c")), polled((1, "b"))], {"nonmonotonic-poll": 1}),
    "a poll that failed moves nobody": (
        [ABC, polled((0, "a")), polled((1, "b"), (2, "c"), kind="fail"), polled((1, "b"), (2, "c"))],
        {},
    ),
    "an assignment forgets what it does not name": (
        [ABC, polled((0, "a"), (1, "b"), (2, "c")), (1, "ok", "assign", ["y"]), polled((0, "a"))],
        {},
    ),
    "an assignment that failed forgets nothing": (
        [ABC, polled((0, "a"), (1, "b"), (2, "c")), (1, "fail", "assign", ["y"]), polled((0, "a"))],
        {"nonmonotonic-poll": 1},
    ),
    "an empty poll forgets nothing": (
        [ABC, polled((0, "a")), (1, "ok", "poll", [["poll", []]]), polled((2, "c")), polled((1, "b"), process=2)],
        {"poll-skip": 1},
    ),
    "int-send-skip": (
        [sent((0, "a"), (2, "c")), sent((1, "b"), process=2), polled((0, "a"), (1, "b"), (2, "c"))],
        {"int-send-skip": 1},
    ),
    "int-nonmonotonic-send": ([sent((1, "b"), (0, "a")), polled((0, "a"), (1, "b"))], {"int-nonmonotonic-send": 1}),
    "nonmonotonic-send": ([sent((1, "b")), sent((0, "a")), polled((0, "a"), (1, "b"))], {"nonmonotonic-send": 1}),
    "two processes may send in any order": (
        [sent((1, "b")), sent((0, "a"), process=2), polled((0, "a"), (1, "b"))],
        {},
    ),
    "precommitted-read": (
        [(0, "ok", "txn", [["send", "x", 0, "a"], ["poll", [["x", [[0, "a"]]]]]]), polled((0, "a"))],
        {"precommitted-read": 1},
    ),
    "phantom-read": ([sent((0, "a")), polled((0, "a"), (1, "ghost"))], {"phantom-read": 1}),
    "one value may be sent to two partitions": (
        [sent((0, "a")), sent((0, "a"), key="y"), polled((0, "a")), polled((0, "a"), key="y")],
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_exactly_the_expected_kinds_are_found(name: str) -> None:
    steps, expected = CASES[name]
    assert kinds(*steps) == expected


def test_a_value_of_a_failed_send_that_was_read_is_g1a_and_bad() -> None:
    judged = judge_kafka(history(*CASES["G1a"][0]).operations)
    assert judged.counts["G1a"] == 1
    assert "G1a" in judged.bad


def test_a_rebalance_within_an_operation_excuses_its_steps() -> None:
    lines = [
        {"process": 0, "type": "ok", "f": "send", "value": [["send", "x", 0, "a"], ["send", "x", 1, "b"]]},
        {"process": 1, "type": "ok", "f": "poll", "value": [["poll", [["x", [[1, "b"], [0, "a"]]]]]]},
    ]
    rebalanced = lines[1] | {"rebalance-log": [{"keys": ["x"]}]}
    for second, expected in ((lines[1], True), (rebalanced, False)):
        rows = json_rows(json.dumps(line) for line in (lines[0], second))
        counts = judge_kafka(kafka_history(row for row in rows if hasattr(row, "f")).operations).counts
        assert ("int-nonmonotonic-poll" in counts) is expected


def test_with_subscribe_a_skip_between_polls_is_allowed() -> None:
    steps = CASES["poll-skip"][0]
    assert judge_kafka(history(*steps).operations).bad == {"poll-skip"}
    subscribed = judge_kafka(history((9, "ok", "subscribe", ["x"]), *steps).operations)
    assert "poll-skip" in subscribed.counts
    assert not subscribed.bad


def concurrent(*values: list[object]) -> KafkaHistory:
    """Transactions of processes 0, 1, … that all overlap."""
    lines = [{"process": p, "type": "invoke", "f": "txn", "value": None} for p in range(len(values))]
    lines += [{"process": p, "type": "ok", "f": "txn", "value": value} for p, value in enumerate(values)]
    return kafka_history(row for row in json_rows(json.dumps(line) for line in lines) if hasattr(row, "f"))


def test_writes_in_opposite_order_are_g0_and_allowed() -> None:
    found = concurrent([["send", "x", 0, "a"], ["send", "y", 1, "a"]], [["send", "x", 1, "b"], ["send", "y", 0, "b"]])
    judged = judge_kafka(found.operations)
    assert judged.counts["G0"] == 2
    assert judged.bad == {"unseen"}
    assert "G0" not in judge_kafka(found.operations, with_ww=False).counts


def test_two_that_read_each_other_are_g1c_and_not_allowed() -> None:
    found = concurrent(
        [["send", "x", 0, "a"], ["poll", [["y", [[0, "b"]]]]]], [["send", "y", 0, "b"], ["poll", [["x", [[0, "a"]]]]]]
    )
    judged = judge_kafka(found.operations)
    assert (dict(judged.counts), judged.bad) == ({"G1c": 2}, {"G1c"})


def test_a_cycle_through_the_order_of_writes_is_g1c_and_allowed() -> None:
    found = concurrent(
        [["send", "x", 0, "a"], ["send", "y", 2, "c"]], [["poll", [["x", [[0, "a"]]]]], ["send", "y", 1, "b"]]
    )
    judged = judge_kafka(found.operations)
    assert judged.counts["G1c"] == 1
    assert "G1c" not in judged.bad


def test_a_value_read_before_its_send_began_is_a_cycle_in_time() -> None:
    judged = judge_kafka(history(polled((0, "a")), sent((0, "a"))).operations)
    assert (dict(judged.counts), judged.bad) == ({"G1c-realtime": 1}, {"G1c-realtime"})


def test_a_history_without_dependencies_proves_nothing() -> None:
    assert dict(judge_kafka(history((0, "ok", "assign", ["x"])).operations).counts) == {"empty-transaction-graph": 1}


def test_what_is_no_micro_operation_is_malformed_and_the_rest_is_used() -> None:
    found = history(sent((0, "a")), (1, "ok", "poll", [["poll", 7]]), (2, "ok", "send", [["leap"]]), polled((0, "a")))
    assert len(found.malformed) == 2
    assert len(found.operations) == 4
