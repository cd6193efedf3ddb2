"""Traces leave out the set-up, and show repeated lines once."""

from __future__ import annotations

import pytest

from broker.core.ports.coordination import Answer, ChangeKind, Coordinated, WatchFired
from broker.core.ports.events import Event, TimerFired
from simulation.runs.story import _kind_of_noise
from simulation.runs.trace import Line, without_repetitions
from simulation.shrinking.reduce import from_first_cause


def lines(*texts: str, node: int = 1) -> list[Line]:
    return [Line(at, node, text) for at, text in enumerate(texts)]


def test_repeated_rounds_are_shown_once() -> None:
    story = lines("up", "asks", "refused", "asks", "refused", "asks", "refused", "asks", "let in")
    assert [line.text for line in without_repetitions(story)] == [
        "up",
        "asks",
        "refused (this, 3 times)",
        "asks",
        "let in",
    ]


def test_the_same_line_of_another_node_is_shown() -> None:
    story = [*lines("dies", node=1), *lines("dies", node=2), *lines("dies", node=3)]
    assert without_repetitions(story) == story


def test_a_trace_begins_when_the_cluster_is_up_and_keeps_earlier_faults() -> None:
    fault, heal = Line(0, 0, "pause of 1"), Line(9, 0, "end of pause of 1")
    up = lines("starts", "log-0: leads in epoch 0, log end 0", "caught up with the metadata")
    caused = lines("Produce 1 to p0", "log-0: ISR [1]")
    assert from_first_cause([fault, *up, *caused, heal]) == [fault, *caused, heal]
    assert from_first_cause(up) == up


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (Coordinated(1, Answer()), "answer of ZooKeeper"),
        (WatchFired(next(iter(ChangeKind)), "/a"), "watch fired"),
        (TimerFired("fetch"), "timer"),
    ],
)
def test_noise_has_the_name_of_its_event(event: Event, kind: str) -> None:
    assert _kind_of_noise(event) == kind
