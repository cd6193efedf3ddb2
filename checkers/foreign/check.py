"""Checks files and directories of any known format: one verdict each, in the order in which they were given.

A Kafka history without a profile is converted to Harrow's tables and judged together with the stored runs, in one Spark
job; everything else is judged in this process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from checkers.foreign.events import Aside, Event, Malformed, Value
from checkers.foreign.formats import FORMATS, STORE, UnreadableError, recognise, rows_of
from checkers.foreign.jepsen_kafka import judge_kafka
from checkers.foreign.operations import (
    ALIASES,
    KafkaOperation,
    initial_values,
    is_kafka,
    kafka_history,
    model_of,
    operations_of,
)
from checkers.foreign.tables import operations_of_run, write_history
from checkers.linearizability.check import check_history
from checkers.linearizability.evidence import verdict_json
from checkers.linearizability.models import MODELS, initial_state
from checkers.linearizability.operations import LinearizabilityVerdict, MalformedOperation, Operation
from checkers.verdict.verdict import RunResult
from common.names import unknown
from history.anomalies import MALFORMED

Verdict = Literal["valid", "invalid", "unknown"]


PROFILES: Final[Mapping[str, str]] = {
    "jepsen-kafka": "the kinds of the checker of Jepsen's Kafka workload",
    "jepsen-kafka-wr": "the same without dependencies between writes that follow each other in a log",
}
EVENTS_MAX = 5_000_000
"""A foreign history is held in memory; at about a kilobyte an event, this is what a small machine can hold."""
MALFORMED_KEPT_MAX = 20
NAMED_MAX = 5
CheckRuns = Callable[[Sequence[Path]], list[RunResult]]
"""Checks Harrow's own runs, all in one Spark job."""


@dataclass(frozen=True)
class FileVerdict:
    """The verdict on one file or directory."""

    file: str
    verdict: Verdict
    kinds: tuple[str, ...]
    """Names of all anomalies found, those within the contract (or legal in the profile) included."""
    counts: Mapping[str, int]
    """How often each kind was found, and how much there was: operations, …"""
    reason: str
    """One line."""
    decision: Mapping[str, Any] | None = None
    """For a sequential object: its verdict as JSON of `checkers.linearizability.evidence`."""

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "file": self.file,
            "verdict": self.verdict,
            "kinds": list(self.kinds),
            "counts": dict(self.counts),
            "reason": self.reason,
        }


def unreadable(file: str, reason: str) -> FileVerdict:
    """Return the verdict on a file that cannot be read."""
    return FileVerdict(file, "unknown", (MALFORMED,), {MALFORMED: 1}, reason)


def with_malformed(judged: FileVerdict, malformed: Sequence[Malformed], total: int) -> FileVerdict:
    """Add malformed rows to a verdict: valid becomes unknown, invalid stays invalid."""
    if not total:
        return judged
    rows = "; ".join(f"line {row.line}: {row.problem}" for row in malformed[:3])
    malformed_rows = f"{total:,} malformed rows ({rows}{'; …' if total > 3 else ''})"
    verdict: Verdict = "unknown" if judged.verdict == "valid" else judged.verdict
    return FileVerdict(
        judged.file,
        verdict,
        tuple(sorted({*judged.kinds, MALFORMED})),
        {**judged.counts, MALFORMED: judged.counts.get(MALFORMED, 0) + total},
        malformed_rows if judged.verdict == "valid" else f"{judged.reason}; {malformed_rows}",
        judged.decision,
    )


class UnknownNameError(Exception):
    """A format, model or profile does not exist. One line that lists those that do."""


@dataclass(frozen=True)
class Wanted:
    """What the user asked for."""

    model: str | None = None
    profile: str | None = None
    form: str | None = None
    initial: Value = None
    has_initial: bool = False

    def validated(self) -> Wanted:
        """Return it with the models' own names. Raises `UnknownNameError`, for an initial value that is none too."""
        model = ALIASES.get(self.model or "", self.model)
        for what, name, known in (
            ("model", model, sorted(MODELS)),
            ("profile", self.profile, list(PROFILES)),
            ("format", self.form, list(FORMATS)),
        ):
            if name is not None and name not in known:
                raise UnknownNameError(unknown(name, known, f"a {what}"))
        if model is not None and self.has_initial:
            try:
                initial_state(MODELS[model], self.initial)
            except MalformedOperation as error:
                raise UnknownNameError(str(error)) from error
        return Wanted(model, self.profile, self.form, self.initial, self.has_initial)


@dataclass
class _Read:
    """A history that has been read, as far as it could be."""

    events: list[Event]
    malformed: list[Malformed]
    malformed_total: int = 0
    asides: Counter[tuple[str, str]] = field(
        default_factory=Counter
    )  # (process, what it did) of processes that are no clients

    def complain(self, problems: Iterable[Malformed]) -> None:
        for problem in problems:
            self.malformed_total += 1
            if len(self.malformed) < MALFORMED_KEPT_MAX:
                self.malformed.append(problem)


def check_files(paths: Sequence[Path], wanted: Wanted, check_runs: CheckRuns) -> list[FileVerdict]:
    """Check files of any format. No content raises; what cannot be read is an `unknown` with its reason.

    Raises `UnknownNameError` for names that do not exist, and what `check_runs` raises.
    """
    wanted = wanted.validated()
    judged: dict[int, FileVerdict] = {}
    runs: dict[int, Path] = {}
    reads: dict[int, _Read] = {}
    with ExitStack() as stack:
        scratch: Path | None = None
        for number, path in enumerate(paths):
            try:
                form = wanted.form or recognise(path)
                if form is None or (form == STORE) != path.is_dir():
                    judged[number] = unreadable(str(path), _unrecognised(path, form))
                elif form == STORE and wanted.profile is None:
                    runs[number] = path
                elif form == STORE:
                    judged[number] = _by_profile(str(path), operations_of_run(path), wanted)
                else:
                    read = _read(path, form)
                    if not read.events:
                        judged[number] = _empty(str(path), read)
                    elif not _is_kafka_history(read.events, wanted):
                        judged[number] = _linearizable(str(path), read, form, wanted)
                    else:
                        history = kafka_history(read.events)
                        read.events.clear()
                        read.complain(history.malformed)
                        if wanted.profile is not None:
                            found = _by_profile(str(path), history.operations, wanted)
                            judged[number] = with_malformed(found, read.malformed, read.malformed_total)
                        else:
                            scratch = scratch or Path(stack.enter_context(TemporaryDirectory(prefix="harrow-check-")))
                            write_history(history.operations, scratch / str(number), f"{number}: {path.name}")
                            runs[number] = scratch / str(number)
                            reads[number] = read
            except (OSError, UnreadableError, MalformedOperation) as error:
                judged[number] = unreadable(str(path), " ".join(str(error).split()))
        results = check_runs(list(runs.values())) if runs else []
        for number, result in zip(runs, results, strict=True):
            file = str(paths[number])
            if number in reads:
                found = _of_foreign_run(file, result)
                judged[number] = with_malformed(found, reads[number].malformed, reads[number].malformed_total)
            else:
                judged[number] = _of_run(file, result)
    return [judged[number] for number in range(len(paths))]


def _read(path: Path, form: str) -> _Read:
    read = _Read([], [])
    for row in rows_of(path, form):
        if isinstance(row, Malformed):
            read.complain([row])
            continue
        if isinstance(row, Aside):
            read.asides[row.process, row.what] += 1
            continue
        read.events.append(row)
        if len(read.events) > EVENTS_MAX:
            raise UnreadableError(f"expected at most {EVENTS_MAX:,} events of a foreign history, found more; cut it")
    return read


def _unrecognised(path: Path, form: str | None) -> str:
    if path.is_dir():
        return "expected a run of our own, with a directory `history` in it, found another directory"
    if form == STORE:
        return "expected the directory of a run, found a file"
    return f"expected a history of a known format ({', '.join(FORMATS)}), found none in its content; --format names one"


def _empty(file: str, read: _Read) -> FileVerdict:
    reason = f"expected operations of clients, found {_others(read.asides) or 'none'}"
    nothing = FileVerdict(file, "unknown", (), {"operations": 0}, reason)
    return with_malformed(nothing, read.malformed, read.malformed_total)


def _others(asides: Counter[tuple[str, str]]) -> str:
    """Describe the events of a history that no client performed: `12 events of nemesis (start, stop) alone`."""
    if not asides:
        return ""
    processes, done = (list(dict.fromkeys(names)) for names in zip(*asides, strict=True))
    events = f"{asides.total():,} event{'s' if asides.total() > 1 else ''}"
    return f"{events} of {_first(processes)} ({_first(done)}) alone"


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")


def _is_kafka_history(events: Sequence[Event], wanted: Wanted) -> bool:
    if wanted.model is not None:
        return False
    return wanted.profile is not None or any(is_kafka(event) for event in events)


def _by_profile(file: str, operations: Sequence[KafkaOperation], wanted: Wanted) -> FileVerdict:
    judged = judge_kafka(operations, with_ww=wanted.profile == "jepsen-kafka")
    nothing = judged.counts.keys() == {"empty-transaction-graph"}
    verdict: Verdict = "unknown" if nothing else "invalid" if judged.bad else "valid"
    if nothing:
        reason = "no operation depends on another, so nothing follows from them"
    elif judged.bad:
        reason = "not allowed: " + _listed({kind: judged.counts[kind] for kind in judged.bad})
    else:
        reason = "allowed: " + _listed(judged.counts) if judged.counts else "no anomaly"
    return FileVerdict(
        file, verdict, tuple(sorted(judged.counts)), {"operations": len(operations), **judged.counts}, reason
    )


def _linearizable(file: str, read: _Read, form: str, wanted: Wanted) -> FileVerdict:
    operations, malformed = operations_of(read.events, form)
    read.complain(malformed)
    name = wanted.model or model_of(operations)
    if name is None:
        functions = ", ".join(sorted({operation.function for operation in operations})[:10])
        known = ", ".join(sorted(MODELS))
        reason = f"expected the operations of a model ({known}), found {functions or 'none'}; --model names one"
        nothing = FileVerdict(file, "unknown", (), {"operations": len(operations)}, reason)
        return with_malformed(nothing, read.malformed, read.malformed_total)
    tried = [wanted.initial] if wanted.has_initial else initial_values(operations, name, form)
    verdict = _decided(operations, name, tried)
    found = FileVerdict(
        file,
        verdict.outcome,
        tuple(sorted(verdict.kinds)),
        dict(verdict.counts),
        f"{name}: {verdict.reason}",
        verdict_json(verdict),
    )
    return with_malformed(found, read.malformed, read.malformed_total)


def _decided(operations: Sequence[Operation], name: str, tried: Sequence[Value]) -> LinearizabilityVerdict:
    """Try initial values in turn: a history is linearizable if one of them explains it."""
    verdicts = []
    for initial in tried or (MODELS[name].initial,):
        verdict = check_history(operations, name, initial=initial)
        if verdict.outcome == "valid":
            return verdict
        verdicts.append(verdict)
    return next((verdict for verdict in verdicts if verdict.outcome == "unknown"), verdicts[0])


def _of_run(file: str, result: RunResult) -> FileVerdict:
    counts = {name: count.violations + count.within_contract for name, count in result.anomalies.items()}
    reason = "; ".join(result.reasons) or "no violations"
    return FileVerdict(file, result.verdict, tuple(sorted(counts)), {**result.counts, **counts}, reason)


def _of_foreign_run(file: str, result: RunResult) -> FileVerdict:
    """Judge a foreign history by its anomalies alone: it has no phases, no samples and no final reads."""
    counts = {name: count.violations + count.within_contract for name, count in result.anomalies.items()}
    broken = {name: count.violations for name, count in result.anomalies.items() if count.violations}
    open_questions: dict[str, int] = {name: counts[name] for name in (MALFORMED, "unseen") if name in counts}
    verdict: Verdict = "invalid" if broken else "unknown" if open_questions else "valid"
    reason = _listed(broken) if broken else _listed(open_questions) if open_questions else "no anomaly"
    kept = {name: result.counts[name] for name in ("operations", "records_read") if name in result.counts}
    return FileVerdict(file, verdict, tuple(sorted(counts)), {**kept, **counts}, reason)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {number:,}" for name, number in sorted(counts.items()))
