"""Gathers what a run's directory says that bears on causes: settings, faults, samples, logs, findings of the simulator.

No content of a directory raises: what cannot be read is not there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from common.wording import enumeration, labelled, partition_name
from history.contract import CRASHING_FIRST, DOWN_ALREADY, ENDING_KINDS, LOSSY_KINDS
from history.reader import load_table
from incidents import needed, node_logs
from incidents.conditions import isr_conditions
from incidents.deeds import A_RECIPE, OF_CLOCKS, RECIPES, meaning
from incidents.faults import Fault, read_fault
from incidents.logged_states import ENVIRONMENTS, LoggedState, fencings, logged_states
from incidents.needed import Needed
from incidents.node_logs import Complaint, LogLine
from incidents.partition_history import PartitionHistory, partition_history

TOPIC_OF_SIMULATIONS = "log"
IN_EFFECT_MAX = 8
"""Faults in effect at a moment that are named."""
_JUST_NS = 100_000_000
"""What a fault has caused may show itself so long after its end, in nanoseconds."""
_NS_OF_US = 1_000
_STORY_VIOLATION = "VIOLATION"

_LEADER_RACES = frozenset({"zk-v1", "zk-v2"})


class Finding(NamedTuple):
    """A finding of the simulator's own checks."""

    layer: str
    property_id: str
    what: str
    at_ns: int | None
    topic: str | None
    partition: int | None
    offset: int | None
    brokers: tuple[int, ...]

    @property
    def value(self) -> int | None:
        """The record that a finding of the clients' history is about."""
        about = _VALUE.match(self.what) if self.layer == "history" else None
        return int(about[1]) if about is not None else None

    @property
    def number(self) -> int:
        """How many cases of it there were, of which it is the first."""
        cases = _CASES.search(self.what)
        return int(cases[1].replace(",", "")) if cases is not None else 1

    @property
    def ranges(self) -> list[tuple[int, int, int]]:
        """Of several records, the partitions that they were in, each with the first and the last offset."""
        lacks = _LACKS.search(self.what)
        if lacks is not None and self.partition is not None:
            return [(self.partition, int(lacks[1]), int(lacks[2]))]
        cases = _CASES.search(self.what)
        found = _RANGE.finditer(cases[2] or "") if cases is not None else ()
        return [(int(one[3]), int(one[1]), int(one[2])) for one in found]

    def __str__(self) -> str:
        return labelled(self.property_id, self.what)


class StoryLine(NamedTuple):
    """A transition of a simulation, as `story.json` has it."""

    at_ns: int
    node: int
    text: str
    source: int | None
    left_out: frozenset[str] = frozenset()
    """The kinds of messages that changed nothing, came since the line before, and are not in the file."""

    high_watermarks: Mapping[str, int] = MappingProxyType({})
    """Partition → high watermark of the node's replica after it; of those replicas whose state the line has."""

    logs: Mapping[str, tuple[tuple[int, int, int], ...]] = MappingProxyType({})
    """Partition → stretches of its log after it: leader epoch, first offset, the offset after the last one."""


class Evidence:
    """What is known of a run; each part is read when it is first asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.history_of = cache(self._history_of)
        self._complaints_of = cache(partial(node_logs.complaints_of, directory))

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The row of the table `runs`; empty if there is none."""
        rows: list[dict[str, Any]] = load_table(self._directory, "runs").table.slice(0, 1).to_pylist()
        return rows[0] if rows else {}

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that took effect, by their start; in a run without faults the crashes of its story.

        With the kills and restarts of nodes that were down already, which only change when they start.
        """
        rows = load_table(self._directory, "faults").table.to_pylist()
        read = (read_fault(row, is_lossy=self.is_lossy(row["kind"])) for row in rows)
        found = [fault for fault in read if fault is not None] or list(self._crashes())
        return tuple(sorted(found, key=lambda fault: (fault.started_ns, fault.number)))

    def stories(self, numbers: Iterable[int], *, in_brief: bool = False) -> list[str]:
        """Return what faults did, by their numbers. Of a recipe: what those of its parts did that were needed.

        In brief only the numbers of these parts.
        """
        by_number = {fault.number: fault for fault in self.faults if fault.number}
        parts = {first: rest for first, *rest in self.needed.parts} if self.needed is not None else {}
        inside = self.needed.inside if self.needed is not None else ()

        def story(number: int) -> str:
            return by_number[number].story if number in by_number else f"fault #{number}"

        def together(numbers: Sequence[int]) -> str:
            alike: dict[tuple[str, frozenset[int], str], list[Fault]] = {}
            known_here = [by_number[number] for number in sorted(numbers) if number in by_number]
            struck = [fault for fault in known_here if fault.detail != DOWN_ALREADY]
            for fault in struck or known_here:
                alike.setdefault((fault.kind, fault.targets, fault.detail), []).append(fault)
            known = [first.story_with(later) for first, *later in alike.values()]
            return enumeration([*known, *(story(number) for number in numbers if number not in by_number)])

        def of_recipe(number: int) -> str:
            kind = by_number[number].kind if number in by_number else ""
            named = enumeration([f"#{part}" for part in sorted(parts[number])])
            if kind and kind not in RECIPES:  # a fault that ends by another one
                return (
                    f"{story(number)}, with {named}"
                    if in_brief
                    else f"{story(number)}, and then {together(parts[number])}"
                )
            series = meaning(kind) if kind in RECIPES else A_RECIPE
            if in_brief:
                return f"{series} (fault #{number}), of which {named} had begun by then"
            return f"{series} (fault #{number}), of which by then: {together(parts[number])}"

        return [
            of_recipe(number) if number in parts else story(number)
            for number in numbers
            if number and number not in inside
        ]

    def in_effect(self, at_ns: int, brokers: Collection[int], among: Iterable[int] | None = None) -> list[Fault]:
        """Return the faults that lasted at a moment, or had just ended, by their start; `among`: only these numbers.

        Of many those on these brokers, where any are known, then what series consist of rather than these, then the
        latest.
        """
        wanted = None if among is None else set(among)
        lasting = [
            fault
            for fault in self.faults
            if fault.touches(at_ns - _JUST_NS, at_ns)
            and (wanted is None or fault.number in wanted)
            and not (fault.kind == "pause" and self._was_killed(fault, at_ns))
        ]
        known = set(brokers)
        lasting.sort(
            key=lambda fault: (
                bool(known and fault.targets) and not fault.targets & known,
                fault.kind in RECIPES,
                -fault.started_ns,
            )
        )
        return sorted(lasting[:IN_EFFECT_MAX], key=lambda fault: fault.started_ns)

    def _was_killed(self, fault: Fault, until_ns: int) -> bool:
        """Whether the process that a fault has hit was ended by a later one before this moment."""
        return any(
            other.targets >= fault.targets and fault.started_ns < other.started_ns <= until_ns
            for other in self.faults
            if other.kind in ENDING_KINDS | CRASHING_FIRST
        )

    def is_lossy(self, kind: str | None) -> bool:
        """Whether a node may lack what it had written after a fault of this kind."""
        return kind in LOSSY_KINDS or (bool(self.settings.get("volatile")) and kind in ENDING_KINDS)

    def _crashes(self) -> Iterable[Fault]:
        for line in self.story:
            if line.text.startswith("loses power"):
                lost = re.search(r"(\d+) bytes", line.text)
                lossy = lost is not None and lost[1] != "0"
                yield Fault(
                    0, "page-cache-loss" if lossy else "kill", frozenset({line.node}), line.at_ns, None, lossy=lossy
                )
            elif line.text == "dies":
                yield Fault(0, "kill", frozenset({line.node}), line.at_ns, None, lossy=False)

    @cached_property
    def story(self) -> tuple[StoryLine, ...]:
        """The transitions that led to a simulated failure; empty for a real run."""
        stored = _json(self._directory / "story.json")
        lines = []
        for line in stored if isinstance(stored, list) else []:
            try:
                at_ns, node, text, source = line["at_us"] * _NS_OF_US, line["node_id"], line["text"], line["source"]
            except (KeyError, TypeError):
                continue
            if isinstance(at_ns, int) and isinstance(node, int) and isinstance(text, str):
                folded = line.get("folded")
                left_out = frozenset(folded if isinstance(folded, dict) else ())
                source = source if isinstance(source, int) else None
                state = line.get("state")
                marks, logs = _high_watermarks(state), _logs_of(state)
                lines.append(StoryLine(at_ns, node, text, source, left_out, marks, logs))
        return tuple(lines)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What the simulator found, in its order."""
        outcome = _json(self._directory / "outcome.json")
        stored = outcome.get("findings") if isinstance(outcome, dict) else None
        violation_ns = next((line.at_ns for line in self.story if line.text.startswith(_STORY_VIOLATION)), None)
        found = []
        for index, one in enumerate(stored if isinstance(stored, list) else []):
            if isinstance(one, dict) and all(isinstance(one.get(key), str) for key in ("layer", "property_id", "what")):
                at_ns = violation_ns if index == 0 and one["layer"] in ("invariant", "liveness", "crash") else None
                found.append(_finding(one["layer"], one["property_id"], one["what"], at_ns))
        return tuple(found)

    @cached_property
    def needed(self) -> Needed | None:
        """The faults that a simulated failure needs; None for a real run, or where that was not tried."""
        return needed.read(self._directory)

    def waited_for(self, fault: Fault) -> str:
        """How small an ISR a fault waited for to begin, as a clause; empty if it did not wait for one."""
        return "" if fault.entry is None else self._isr_conditions.get(fault.entry, "")

    @cached_property
    def _isr_conditions(self) -> Mapping[int, str]:
        return isr_conditions(self._directory)

    def feature(self, name: str) -> int | None:
        """The level of a feature at which the cluster was seen to run; None if that was not looked at."""
        try:
            level = json.loads(self.settings.get("spec") or "{}")["versions"][name]
        except (ValueError, KeyError, TypeError):
            return None
        return int(level) if str(level).isdigit() else None

    @property
    def is_leader_race(self) -> bool:
        """Whether the cluster is of a design whose replicas race for a znode, and whose leaders write the ISR there."""
        return self.settings.get("generation") in _LEADER_RACES

    @property
    def is_simulated(self) -> bool:
        """Whether the simulator made the run."""
        return (self._directory / "outcome.json").is_file()

    def _history_of(self, topic: str, partition: int) -> PartitionHistory:
        return partition_history(self._cluster, topic, partition, self._logged.get((topic, partition), ()))

    @cached_property
    def _logged(self) -> Mapping[tuple[str, int], Sequence[LoggedState]]:
        """What brokers' own logs tell of partitions."""
        return logged_states(self._timed_lines)

    @cached_property
    def _timed_lines(self) -> Sequence[LogLine]:
        """The lines of nodes on this machine, whose clock no fault has set."""
        if self.settings.get("environment") not in ENVIRONMENTS:
            return ()
        wrong = {node for fault in self.faults if fault.kind in OF_CLOCKS for node in fault.targets}
        return [line for line in self.log_lines if line.node not in wrong]

    @cached_property
    def log_lines(self) -> Sequence[LogLine]:
        """The lines with a time of all nodes' logs, on the run's clock."""
        return node_logs.by_run_clock(self._directory, self.settings.get("started_unix_ms"))

    @cached_property
    def fenced(self) -> Sequence[tuple[int, int]]:
        """When controllers have fenced which brokers, by their own logs, in the order of time."""
        return fencings(self._timed_lines)

    @cached_property
    def last_sampled_ns(self) -> Mapping[int, int]:
        """When each broker was last seen with any replica."""
        known = self._cluster.filter(pc.is_valid(self._cluster.column("at_ns")))
        latest = known.group_by("broker").aggregate([("at_ns", "max")])
        return dict(zip(latest.column("broker").to_pylist(), latest.column("at_ns_max").to_pylist(), strict=True))

    @cached_property
    def _cluster(self) -> pa.Table:
        return load_table(self._directory, "cluster").table

    @cached_property
    def _logs(self) -> pa.Table:
        return load_table(self._directory, "logs", ("broker", "topic", "partition", "offset", "leader_epoch")).table

    @cached_property
    def logs_have_epochs(self) -> bool:
        """Whether any record of the logs after the run has a leader epoch: some systems have none."""
        epochs = self._logs.column("leader_epoch")
        return bool(epochs.null_count < len(epochs))

    @cache  # noqa: B019 (an instance lives as long as the making of one report)
    def final_epochs(self, topic: str, partition: int) -> Mapping[int, frozenset[int]]:
        """The leader epochs that the logs hold after the run at each offset of a partition."""
        logs = self._logs
        of_partition = pc.and_(pc.equal(logs.column("topic"), topic), pc.equal(logs.column("partition"), partition))
        held = logs.filter(of_partition).group_by(["offset", "leader_epoch"]).aggregate([]).to_pydict()
        epochs: dict[int, set[int]] = {}
        for offset, epoch in zip(held["offset"], held["leader_epoch"], strict=True):
            if offset is not None and epoch is not None:
                epochs.setdefault(offset, set()).add(epoch)
        return {offset: frozenset(found) for offset, found in epochs.items()}

    def holders_of(self, topic: str, partition: int, records: Mapping[int, int]) -> Mapping[int, int]:
        """How many of these records (offset → value) a broker's log holds after the run at their offsets, if any."""
        logs = self._records_of_logs
        here = pc.and_(pc.equal(logs.column("topic"), topic), pc.equal(logs.column("partition"), partition))
        wanted = pc.is_in(logs.column("offset"), value_set=pa.array(list(records), pa.int64()))
        rows = logs.filter(pc.and_(here, wanted)).to_pylist()
        return Counter(row["broker"] for row in rows if records[row["offset"]] == row["value"])

    @cached_property
    def _records_of_logs(self) -> pa.Table:
        return load_table(self._directory, "logs", ("broker", "topic", "partition", "offset", "value")).table

    def acknowledged(self, value: int) -> Mapping[str, Any] | None:
        """Return the acknowledged write of a record: topic, partition, offset, value, broker, `at_ns`; None if none."""
        return next(iter(self._acknowledged(pc.field("value") == value)), None)

    def gone(self, topic: str, partition: int, first: int, last: int) -> list[Mapping[str, Any]]:
        """Return the acknowledged writes at some offsets of a partition that no broker's log holds after the run."""
        place = (pc.field("topic") == topic) & (pc.field("partition") == partition)
        writes = self._acknowledged(place & (pc.field("offset") >= first) & (pc.field("offset") <= last))
        return [one for one in writes if not self.holders_of(topic, partition, {one["offset"]: one["value"]})]

    def _acknowledged(self, which: pc.Expression) -> list[Mapping[str, Any]]:
        sends = load_table(self._directory, "sends").table.filter(which).to_pylist()
        operations = load_table(self._directory, "operations").table
        mine = pc.is_in(operations.column("op"), value_set=pa.array([send["op"] for send in sends], pa.int64()))
        ended = {one["op"]: one for one in operations.filter(mine).to_pylist() if one["status"] == "ok"}
        return [
            {
                **{name: send[name] for name in ("topic", "partition", "offset", "value")},
                "broker": ended[send["op"]]["node"],
                "at_ns": ended[send["op"]]["completed_ns"],
            }
            for send in sends
            if send["op"] in ended and send["offset"] is not None
        ]

    def complaint(self, node: int, topic: str, partition: int) -> Complaint | None:
        """What a node's log says against a partition when it ends; None if nothing."""
        return self._complaints_of(node).against(topic, partition)

    def complains_since(self, node: int, topic: str, partition: int) -> int | None:
        """When a node's log first said so, in nanoseconds of the run's clock; None if that is not known."""
        complaint = self.complaint(node, topic, partition)
        if complaint is None or self.settings.get("environment") not in ENVIRONMENTS:
            return None
        since_ms = node_logs.first_like(complaint, self.log_lines, node, partition_name(topic, partition))
        return None if since_ms is None else since_ms * 1_000_000

    def faults_on(self, node: int, start_ns: int, end_ns: int) -> list[Fault]:
        """The faults that touched a node in a stretch of time."""
        return [fault for fault in self.faults if node in fault.targets and fault.touches(start_ns, end_ns)]


def as_the_simulator_found(anomalies: pa.Table, findings: Iterable[Finding]) -> pa.Table:
    """Return the table of anomalies with the simulator's judgement where it found what the checkers excuse.

    The contract of the checkers knows a loss by the faults of its run alone; the simulator has seen every step.
    """
    violating = anomalies.filter(pc.invert(pc.fill_null(anomalies.column("within_contract"), False)))
    excused = {finding.property_id for finding in findings} - {*violating.column("anomaly").to_pylist()}
    place = anomalies.schema.get_field_index("within_contract")
    names = anomalies.column("anomaly")
    within = pc.and_not(anomalies.column(place), pc.is_in(names, value_set=pa.array(sorted(excused), names.type)))
    return anomalies.set_column(place, anomalies.schema.field(place), within)


def finding_rows(directory: Path, known: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return the simulator's findings as rows of the table `anomalies`, without those of a name that is in `known`."""
    evidence, left_out = Evidence(directory), set(known)
    return [
        {
            "run_id": directory.name,
            "anomaly": finding.property_id,
            "within_contract": False,
            "topic": finding.topic,
            "partition": finding.partition,
            "offset": finding.offset,
            "value": finding.value,
            "broker": finding.brokers[0] if finding.brokers else None,
            "at_ns": finding.at_ns,
            "explanation": str(finding),
            "evidence": json.dumps({"found_by": f"the simulator ({finding.layer})"}),
        }
        for finding in evidence.findings
        if finding.property_id not in left_out
    ]


# Numbers are no longer than columns of the tables are wide: a file may say anything.
_CASES = re.compile(r" \(the first of (\d{1,3}(?:,\d{3}){0,4})(?:: ([^()]{1,5000}))?\)")
_LACKS = re.compile(r"; it lacks the committed offsets (\d{1,19}) to (\d{1,19})")
_RANGE = re.compile(r"\boffsets (\d{1,19}) to (\d{1,19}) of partition (\d{1,9})\b")
_VALUE = re.compile(r"value (\d{1,18}) (?:was|is) ")
_TOPICS = rf"{TOPIC_OF_SIMULATIONS}|side-[a-z]|__consumer_offsets|keyed|exam[.-][a-z]{{1,20}}"
"""The topics of simulations: the main one, those that clients create, the one of groups, those of the examination."""
_PARTITION = re.compile(rf"(?<![\w.-])({_TOPICS})-(\d{{1,9}})\b|\bpartition (\d{{1,9}})\b")
_IS_AT = re.compile(r"\band is at offset (\d{1,18})\b")
"""Where the record is that a finding is about, if another offset is named before."""
_OFFSET = re.compile(
    r"(?<!from )\boffsets? (\d{1,18})\b|\bat (\d{1,18})\b(?! ms)|(?<!metadata )\bup to (\d{1,18})\b"
    r"|what was at (\d{1,18})\b"
)
_BROKER = re.compile(r"\bbroker (\d{1,9})\b|\bnode (\d{1,9})\b|\bcontroller (\d{1,9})\b|\bvoter (\d{1,9})\b")


def _finding(layer: str, property_id: str, what: str, at_ns: int | None) -> Finding:
    """Read partition, offset and nodes out of a finding's sentence."""
    partition = offset = None
    if (named := _PARTITION.search(what)) is not None:
        partition = int(named[2] or named[3])
        at = _IS_AT.search(what) or _OFFSET.search(what)
        offset = None if at is None else int(next(group for group in at.groups() if group))
    nodes = tuple(int(next(group for group in match.groups() if group)) for match in _BROKER.finditer(what))
    topic = None if named is None else named[1] or TOPIC_OF_SIMULATIONS
    return Finding(layer, property_id, what, at_ns, topic, partition, offset, nodes)


def _high_watermarks(state: object) -> Mapping[str, int]:
    """Partition → high watermark, of what a line of a story says of a node's replicas."""
    replicas = state.items() if isinstance(state, dict) else ()
    marks = {str(name): one.get("high_watermark") for name, one in replicas if isinstance(one, dict)}
    return {name: mark for name, mark in marks.items() if isinstance(mark, int)}


def _logs_of(state: object) -> Mapping[str, tuple[tuple[int, int, int], ...]]:
    """Partition → stretches of its log, of what a line of a story says of a node's replicas."""
    found: dict[str, tuple[tuple[int, int, int], ...]] = {}
    for name, one in state.items() if isinstance(state, dict) else ():
        log = one.get("log") if isinstance(one, dict) else None
        stretches = map(_stretch, log if isinstance(log, list) else ())
        found[str(name)] = tuple(stretch for stretch in stretches if stretch is not None)
    return found


def _stretch(given: object) -> tuple[int, int, int] | None:
    if isinstance(given, list) and len(given) == 3 and all(isinstance(one, int) for one in given):
        return (given[0], given[1], given[2])
    return None


def _json(path: Path) -> object:
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content
