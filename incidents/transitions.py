"""Finds in the transitions of a simulation what decides between causes: who asked, answered, deleted, cut what, when.

They are the lines of `story.json`. What the file has left out (its beginning, and messages that changed nothing) is not
taken for something that did not happen: a question that would rest on that has no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from common.wording import FIRST_CONTROLLER
from incidents.evidence import StoryLine

_FETCH_WITHOUT_DATA = "fetch without data"
_NOT_ANSWERED = re.compile(r"failed request|closed connection|Fetch: p\d+ [A-Z_]+(?:, p\d+ [A-Z_]+)*")
"""What a follower hears of its leader without learning anything of its log: nothing, or an error."""
_FENCED = re.compile(r"sessions of brokers \[([\d, ]*)\] expired; fenced")


class FencedMembers(NamedTuple):
    """Brokers that a controller has fenced, and that are still in the ISR by the same decision."""

    at_ns: int
    controller: int
    fenced: tuple[int, ...]
    members: tuple[int, ...]
    isr: tuple[int, ...]


class IsrChange(NamedTuple):
    """A change of a partition's ISR, when the first node applied it."""

    at_ns: int
    before: tuple[int, ...]
    now: tuple[int, ...]


class AskedToAdd(NamedTuple):
    """A leader that asked to add a broker to the ISR."""

    at_ns: int
    leader: int
    was_answered: bool


class HeldRecord(NamedTuple):
    """A record that a broker had, of a leader epoch, when its log ended at `log_end`."""

    at_ns: int
    epoch: int
    log_end: int


class BeganToFollow(NamedTuple):
    """A replica that became the follower of a leader."""

    at_ns: int
    leader: int
    epoch: int | None
    """The leader epoch; None where the design has none."""


def isr_changes(story: Sequence[StoryLine], name: str, until_ns: int) -> list[IsrChange]:
    """Return the changes of a partition's ISR in the order of time: each begins with the ISR that the last one left.

    So what a node applies later, or again after a restart, is left out.
    """
    changed = re.compile(rf"(?:^|; ){re.escape(name)}: (?:[^;]*, )?ISR \[([\d, ]*)\] → \[([\d, ]*)\]")
    found: list[IsrChange] = []
    for line in _until(story, until_ns):
        match = changed.search(line.text)
        if match is not None and (not found or found[-1].now == numbers(match[1])):
            found.append(IsrChange(line.at_ns, numbers(match[1]), numbers(match[2])))
    return found


def deleted_unseen(story: Sequence[StoryLine], broker: int, name: str, until_ns: int) -> int | None:
    """Return when a broker deleted its log of a partition, if no fetch of it has reached another broker since."""
    deleted = [line for line in _until(story, until_ns) if line.node == broker and line.text == f"{name}: removed"]
    if not deleted:
        return None
    since = _since(story, deleted[-1].at_ns, until_ns)
    fetched = any(
        line.source == broker and line.node < FIRST_CONTROLLER and line.text.lower().startswith("fetch ")
        for line in since
    )
    return None if fetched or _is_incomplete(since) else deleted[-1].at_ns


def asked_to_add(story: Sequence[StoryLine], broker: int, name: str, until_ns: int) -> AskedToAdd | None:
    """Return who last asked to add a broker to the ISR."""
    asking = f"{name}: {broker} caught up; asking to expand"
    asked = [line for line in _until(story, until_ns) if line.text == asking]
    if not asked:
        return None
    answers = (
        line
        for line in _since(story, asked[-1].at_ns, until_ns)
        if line.node == asked[-1].node and line.text.startswith("AlterPartition: ")
    )
    return AskedToAdd(asked[-1].at_ns, asked[-1].node, any(answers))


def unanswered_since(story: Sequence[StoryLine], broker: int, leader: int, name: str, until_ns: int) -> int | None:
    """Return when a broker began to follow a leader, if no answer of that leader has reached it since."""
    follows = f"{name}: follows {leader}"
    began = [
        line
        for line in _until(story, until_ns)
        if line.node == broker and line.text.startswith((f"{follows} ", f"{follows},"))
    ]
    if not began:
        return None
    since = _since(story, began[-1].at_ns, until_ns)
    heard = (line.text for line in since if line.node == broker and line.source == leader)
    answered = any(not _NOT_ANSWERED.fullmatch(text) for text in heard)
    return None if answered or _is_incomplete(since) else began[-1].at_ns


def began_to_follow(story: Sequence[StoryLine], broker: int, name: str, until_ns: int) -> BeganToFollow | None:
    """Return whom a broker had last begun to follow."""
    follows = re.compile(rf"{re.escape(name)}: follows (\d+)\b(?:.*?\bepoch (\d+))?")
    for line in reversed(_until(story, until_ns)):
        match = follows.match(line.text) if line.node == broker else None
        if match is not None:
            return BeganToFollow(line.at_ns, int(match[1]), None if match[2] is None else int(match[2]))
    return None


def told_to_cut(story: Sequence[StoryLine], broker: int, name: str, at_ns: int) -> int | None:
    """Return the leader whose answer made a replica cut its log at a moment; None if it cut without being told."""
    cut = re.compile(rf"{re.escape(name)}: diverges from leader (\d+); cut from \d+ to \d+")
    found = [cut.fullmatch(line.text) for line in story if line.node == broker and line.at_ns == at_ns]
    return next((int(match[1]) for match in found if match is not None), None)


def record_held(story: Sequence[StoryLine], broker: int, name: str, offset: int, until_ns: int) -> HeldRecord | None:
    """Return the record that a broker last had at an offset; None if no line shows one there."""
    for line in reversed(_until(story, until_ns)):
        log = line.logs.get(name, ()) if line.node == broker else ()
        epoch = next((epoch for epoch, first, end in log if first <= offset < end), None)
        if epoch is not None:
            return HeldRecord(line.at_ns, epoch, max(end for _, _, end in log))
    return None


def high_watermark_moved(story: Sequence[StoryLine], name: str, at_ns: int | None) -> tuple[int, int, int] | None:
    """Return which node raised the high watermark of a partition at a moment, from where, and to where.

    A line says it, or the state after a step that was cut short by the violation.
    """
    if at_ns is None:
        return None
    moved = re.compile(rf"{re.escape(name)}: (?:.*, )?high watermark (\d{{1,19}}) → (\d{{1,19}})(?:, .*)?")
    found = [(line.node, moved.fullmatch(line.text)) for line in story if line.at_ns == at_ns]
    raised = [(node, int(match[1]), int(match[2])) for node, match in found if match is not None]
    last: dict[int, int] = {}
    for line in story:
        mark = line.high_watermarks.get(name)
        if mark is not None and line.at_ns <= at_ns:
            if line.at_ns == at_ns and line.node in last:
                raised.append((line.node, last[line.node], mark))
            last[line.node] = mark
    return next((one for one in reversed(raised) if one[1] < one[2]), None)


def controller_of(story: Sequence[StoryLine], name: str, until_ns: int) -> int | None:
    """Return the controller that has last changed a partition's replicas: the others only learn of it."""
    return next(
        (
            line.node
            for line in reversed(_until(story, until_ns))
            if line.node >= FIRST_CONTROLLER and line.text.startswith(f"{name}: replicas [")
        ),
        None,
    )


def fenced_by(story: Sequence[StoryLine], broker: int, until_ns: int) -> tuple[int, int] | None:
    """Return when and by whom a broker was last fenced for its session; None if it was unfenced since."""
    found = None
    for line in _until(story, until_ns):
        match = _FENCED.fullmatch(line.text)
        if match is not None and broker in numbers(match[1]):
            found = line.at_ns, line.node
        elif line.text == f"broker {broker} unfenced":
            found = None
    return found


def fenced_members(story: Sequence[StoryLine], name: str, until_ns: int) -> FencedMembers | None:
    """Return the brokers that a controller has last fenced and left in the ISR of a partition at the same moment."""
    lines = _until(story, until_ns)
    fencing = [(line, match) for line in lines if (match := _FENCED.fullmatch(line.text))]
    if not fencing:
        return None
    line, match = fencing[-1]
    changed = re.compile(rf"{re.escape(name)}: ISR \[[\d, ]*\] → \[([\d, ]*)\].*")
    isrs = [changed.fullmatch(one.text) for one in lines if one.node == line.node and one.at_ns == line.at_ns]
    isr = next((numbers(found[1]) for found in reversed(isrs) if found is not None), ())
    fenced = numbers(match[1])
    members = tuple(broker for broker in fenced if broker in isr)
    return FencedMembers(line.at_ns, line.node, fenced, members, isr) if members else None


def numbers(text: str) -> tuple[int, ...]:
    """Read "1, 2, 3"."""
    return tuple(int(word) for word in text.split(",") if word.strip())


def _until(story: Iterable[StoryLine], until_ns: int) -> list[StoryLine]:
    return [line for line in story if line.at_ns <= until_ns]


def _since(story: Sequence[StoryLine], at_ns: int, until_ns: int) -> list[StoryLine]:
    return [line for line in story if at_ns <= line.at_ns <= until_ns]


def _is_incomplete(lines: Iterable[StoryLine]) -> bool:
    """Whether fetches, or answers to them, were left out between these lines."""
    return any(_FETCH_WITHOUT_DATA in line.left_out for line in lines)
