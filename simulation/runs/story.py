"""Records the story of a simulation: the lines of its trace, what caused each, and what it changed in its node.

A step is caused by the step that sent its message, set its timer or asked for its flush; what a node says while it
handles a message is caused by that message. What changes nothing and says nothing (heartbeats, fetches without data,
timers) is noise: kept where it is a cause, and near the end; else counted with the next step that is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from broker.core.messages import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from broker.core.metadata.records import METADATA_TOPIC
from broker.core.ports.coordination import Coordinated
from broker.core.ports.events import (
    Disconnected,
    Event,
    Exit,
    Flush,
    FlushDone,
    Reply,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Send,
    SetTimer,
    Started,
    StopRequested,
    TimerFired,
)
from simulation.engine.cluster import NOBODY, EventStep, SimulatedCluster
from simulation.engine.node_views import broker_state, controller_state
from simulation.runs.trace import Line, TraceRecorder, lines_of_sends
from simulation.workload.clients import TOPIC
from simulation.workload.recording import SimulatedHistory

STEPS_MAX = 400
"""Lines at the end of a trace that are stored."""
NOISE_MAX = 600
"""Steps of noise, the last ones, that are stored besides those that caused something."""
NOISE_BETWEEN_MAX = 6
"""Steps of noise in a row through which causes are followed back."""
METADATA = "Fetch: metadata"
VIOLATION = "VIOLATION"
"""How the line begins that reports a broken property."""

Standing = Mapping[str, object]
"""What a node knows of one partition."""


class StoryStep(NamedTuple):
    """A transition, or noise. `cause` is the index of the step that led to it, None if nothing in the story did."""

    line: Line
    cause: int | None = None
    noise: str = ""
    """What kind of noise it is; "" if it is none."""
    state: Mapping[str, Standing] | None = None
    """What it changed: partition → what the node knows of it from then on."""
    ended: bool = False
    """Whether the node ended."""
    message: str = ""
    """What came, if the step is a message: `request`, `answer`, or `lost` for a request that has got no answer."""


class StoryRecorder(TraceRecorder):
    """An observer that records steps beside the lines of the trace."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[StoryStep] = []
        self._lines_taken = 0
        self._last_event: int | None = None
        self._messages: dict[tuple[int, int, int], tuple[object, int]] = {}
        self._timers: dict[tuple[int, object], int] = {}
        self._flushes: dict[tuple[int, object], int] = {}
        self._sent_to: dict[tuple[int, int], tuple[int, int]] = {}
        self._asked_from: dict[tuple[int, int], int] = {}
        self._standing: dict[int, dict[str, Standing]] = {}
        self._ended: dict[int, int] = {}

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        self.catch_up(cluster.log_entries or ())
        cause, source = self._cause(step)
        super().after(cluster, step)
        lines = self._new_lines()
        changed = self._changed(cluster, step.node_id)
        ended = any(isinstance(effect, Exit) for effect in step.effects)
        own = lines.pop(0) if lines and lines[0].node_id == step.node_id and _is_own(step, lines[0]) else None
        what = _difference(changed, self._standing.get(step.node_id, {}))
        noise = "metadata" if own is not None and own.text == METADATA else _kind_of_noise(step.event)
        if (own is not None and own.text != METADATA) or what:
            noise = ""
        if own is None or (own.text == METADATA and what):
            own = Line(cluster.now_us, step.node_id, what or _words_of_noise(step.event, noise), source)
        here = len(self.steps)
        self.steps.append(StoryStep(own, cause, noise, changed or None, ended, _message(step.event)))
        self.steps += [StoryStep(line, here) for line in lines]
        self._standing.setdefault(step.node_id, {}).update(changed)
        self._last_event = here
        if ended:
            self._ended[step.node_id] = here
        self._remember(step, here)

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        self.catch_up(cluster.log_entries or ())
        super().crashed(cluster, node_id, lost_bytes)
        last = self.steps[-1].line if self.steps else None
        ordered = last is not None and last.node_id == NOBODY and last.at_us == cluster.now_us
        cause = len(self.steps) - 1 if ordered else None
        self._standing.pop(node_id, None)
        self._ended[node_id] = len(self.steps)
        self.steps += [StoryStep(line, cause, ended=True) for line in self._new_lines()]

    def catch_up(self, log_entries: Sequence[tuple[int, int, str]]) -> None:
        """See `TraceRecorder.catch_up`. A property is found broken after the event that broke it."""
        super().catch_up(log_entries)
        for line in self._new_lines():
            self.steps.append(StoryStep(line, self._last_event if line.text.startswith(VIOLATION) else None))

    def _new_lines(self) -> list[Line]:
        new = self.lines[self._lines_taken :]
        self._lines_taken = len(self.lines)
        return new

    # --- causes ------------------------------------------------------------------------------------------------------

    def _cause(self, step: EventStep) -> tuple[int | None, int | None]:
        """Return the step that led to an event, and the node that its message came from."""
        node, event = step.node_id, step.event
        match event:
            case RequestReceived(request_id, connection, request):
                self._asked_from[node, request_id] = connection
                return self._message_of(request, connection, node), connection
            case ResponseReceived(request_id, response):
                to, asked = self._sent_to.pop((node, request_id), (None, None))
                answered = None if to is None else self._message_of(response, to, node)
                return asked if answered is None else answered, to
            case RequestFailed(request_id, _):
                to, asked = self._sent_to.pop((node, request_id), (None, None))
                return asked, to
            case TimerFired(key):
                return self._timers.get((node, key)), None
            case FlushDone(token, _):
                return self._flushes.pop((node, token), None), None
            case Started() if node in self._ended:
                return self._ended.pop(node), None  # it starts with what its end has left
        last = self.steps[-1].line if self.steps else None
        ordered = isinstance(event, Started | StopRequested) and last is not None and last.node_id == NOBODY
        return (len(self.steps) - 1 if ordered else None), None

    def _message_of(self, message: object, source: int, target: int) -> int | None:
        sent = self._messages.get((id(message), source, target))
        return None if sent is None else sent[1]

    def _remember(self, step: EventStep, here: int) -> None:
        node = step.node_id
        for effect in step.effects:
            match effect:
                case Send(request_id, to, request):
                    # With the message itself, so that no other can get its identity.
                    self._messages[id(request), node, to] = (request, here)
                    self._sent_to[node, request_id] = (to, here)
                case Reply(request_id, response):
                    asker = self._asked_from.pop((node, request_id), None)
                    if asker is not None and response is not None:
                        self._messages[id(response), node, asker] = (response, here)
                case SetTimer(key, _):
                    self._timers[node, key] = here
                case Flush(token, _):
                    self._flushes[node, token] = here

    # --- state -------------------------------------------------------------------------------------------------------

    def _changed(self, cluster: SimulatedCluster, node_id: int) -> dict[str, Standing]:
        known = self._standing.get(node_id, {})
        return {name: one for name, one in _standings(cluster, node_id).items() if known.get(name) != one}


def _standings(cluster: SimulatedCluster, node_id: int) -> dict[str, Standing]:
    """Return what a node knows of the partitions of the main topic; offsets are exclusive ends."""
    node = cluster.machines[node_id].node
    found: dict[str, Standing] = {}
    controller = controller_state(node)
    topic = controller.image.topics.get(TOPIC) if controller is not None else None
    for number, state in sorted(topic.partitions.items()) if topic is not None else ():
        found[f"{TOPIC}-{number}"] = {
            "role": "active controller" if controller is not None and controller.active else "controller",
            "leader": state.leader,
            "epoch": state.leader_epoch,
            "isr": list(state.isr),
            "elr": list(state.elr),
        }
    broker = broker_state(node)
    for (name, number), replica in broker.replicas.items() if broker is not None else ():
        if name != TOPIC:
            continue
        log = replica.log
        starts = [max(start, log.start_offset) for _, start in log.epochs.entries]
        borders = [*starts, log.end_offset]
        found[f"{TOPIC}-{number}"] = {
            "role": replica.role.value,
            "leader": replica.leader,
            "epoch": replica.leader_epoch,
            "isr": list(replica.isr),
            "elr": list(replica.elr),
            "high_watermark": replica.high_watermark,
            "log_start": log.start_offset,
            "log_end": log.end_offset,
            "log": [
                [epoch, start, end]
                for (epoch, _), start, end in zip(log.epochs.entries, borders[:-1], borders[1:], strict=True)
                if start < end
            ],
        }
    return found


_SAID = (("log_end", "log end"), ("high_watermark", "high watermark"), ("isr", "ISR"), ("elr", "ELR"))


def _difference(changed: Mapping[str, Standing], known: Mapping[str, Standing]) -> str:
    """Say what an event changed, as far as its node had said nothing itself."""
    parts = []
    for name, now in changed.items():
        before = known.get(name, {})
        said = [
            f"{word} {before[key]} → {now[key]}"
            for key, word in _SAID
            if key in now and key in before and before[key] != now[key]
        ]
        if said:
            parts.append(f"{name}: {', '.join(said)}")
    return "; ".join(parts)


def _is_own(step: EventStep, line: Line) -> bool:
    """Whether a line is about the event itself, and not about what its node did then."""
    return line.source is not None or isinstance(step.event, Started | StopRequested)


def _message(event: Event) -> str:
    match event:
        case RequestReceived():
            return "request"
        case ResponseReceived():
            return "answer"
        case RequestFailed():
            return "lost"
    return ""


def _words_of_noise(event: Event, noise: str) -> str:
    """Tell noise as a step by itself, which it is where something came of it: of a fetch also from where."""
    match event:
        case RequestReceived(_, _, FetchRequest(partitions=())):
            return "fetch of what its session names, from where that stands"
        case RequestReceived(_, _, FetchRequest() as request):
            wanted = (f"{_name(part)} from {part.fetch_offset}" for part in request.partitions)
            return f"fetch of {', '.join(wanted)}"
        case ResponseReceived(_, FetchResponse(partitions=(_, *_) as answered)):
            return f"{noise}: {', '.join(f'{_name(part)}, high watermark {part.high_watermark}' for part in answered)}"
    return noise


def _name(part: FetchPartition | FetchedPartition) -> str:
    if part.topic == METADATA_TOPIC:
        return "metadata"
    return f"p{part.partition}" if part.topic == TOPIC else f"{part.topic or 'another topic'} {part.partition}"


_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _kind_of_noise(event: Event) -> str:
    match event:
        case RequestReceived(_, _, message) | ResponseReceived(_, message):
            if isinstance(message, FetchRequest | FetchResponse):
                return "fetch without data"
            name = type(message).__name__.removesuffix("Request").removesuffix("Response")
            return _WORDS.sub(" ", name).lower()
        case TimerFired():
            return "timer"
        case FlushDone():
            return "flush"
        case RequestFailed():
            return "failed request"
        case Disconnected():
            return "closed connection"
        case Coordinated():
            return "answer of ZooKeeper"
    return _WORDS.sub(" ", type(event).__name__).lower()


# --- what is stored --------------------------------------------------------------------------------------------------


def story_of(
    recorder: StoryRecorder,
    history: SimulatedHistory,
    log_entries: Sequence[tuple[int, int, str]],
    *,
    first_text: str | None = None,
) -> list[dict[str, Any]]:
    """Return what `story.json` holds: the steps that lead to the violation, or else to the end.

    Each has `at_us`, `node_id`, `text` and `source`, as in the trace; and, where there is one, `cause` (an index in
    the list), `noise` (its kind), `folded` (kinds and numbers of noise before it that is not in the list), `state`,
    `ended`, `message`, and in the first step `before`: the state of all nodes when it happened. With `first_text` the
    story begins at the first line that begins so, if there is one.
    """
    recorder.catch_up(log_entries)
    steps = _in_order([*recorder.steps, *(StoryStep(line) for line in lines_of_sends(history))])
    violations = (index for index, step in enumerate(steps) if step.line.text.startswith(VIOLATION))
    end = next(violations, len(steps) - 1)
    lines = [index for index in range(end + 1) if not steps[index].noise]
    if first_text is not None:
        begun = (place for place, index in enumerate(lines) if steps[index].line.text.startswith(first_text))
        lines = lines[next(begun, 0) :]
    kept = _kept(steps, lines[-STEPS_MAX:], end)
    number_of = {index: number for number, index in enumerate(kept)}
    stored = []
    passed = Counter[str]()
    for index in range(kept[0] if kept else 0, end + 1):
        step = steps[index]
        if index not in number_of:
            passed[step.noise] += 1
            continue
        row: dict[str, Any] = step.line._asdict()
        cause = None if step.cause is None else number_of.get(step.cause)
        more: dict[str, Any] = {
            "cause": cause,
            "noise": step.noise or None,
            "folded": dict(sorted(passed.items())) or None,
        }
        more |= {"state": step.state or None, "ended": step.ended or None, "message": step.message or None}
        stored.append(row | {key: value for key, value in more.items() if value is not None})
        passed.clear()
    if stored:
        stored[0]["before"] = _state_before(steps[: kept[0]])
    return stored


def _in_order(steps: Sequence[StoryStep]) -> list[StoryStep]:
    """Sort steps by time, those of one moment as they were recorded, and number their causes anew."""
    order = sorted(range(len(steps)), key=lambda index: steps[index].line.at_us)
    place = {index: number for number, index in enumerate(order)}
    return [
        steps[index]._replace(cause=None if (cause := steps[index].cause) is None else place[cause]) for index in order
    ]


def _kept(steps: Sequence[StoryStep], lines: Sequence[int], end: int) -> list[int]:
    """Return the indices of the lines, of the noise that led to them, and of the last noise."""
    if not lines:
        return []
    kept = set(lines)
    for line in lines:
        cause = steps[line].cause
        for _ in range(NOISE_BETWEEN_MAX):
            if cause is None or cause < lines[0] or cause in kept:
                break
            kept.add(cause)
            cause = steps[cause].cause
    noise = [index for index in range(lines[0], end + 1) if steps[index].noise]
    return sorted(kept | set(noise[-NOISE_MAX:]))


def _state_before(steps: Sequence[StoryStep]) -> dict[str, dict[str, Standing]]:
    state: dict[str, dict[str, Standing]] = {}
    for step in steps:
        node = str(step.line.node_id)
        if step.ended:
            state.pop(node, None)
        elif step.state:
            state.setdefault(node, {}).update(step.state)
    return state
