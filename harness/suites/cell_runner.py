"""Performing a cell: its process, then the judgement of what it left."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.run.stopping import Stop
from harness.store.heal import heal
from harness.store.store import runs
from harness.suites import cell_process
from harness.suites.cells import Cell, Skipped, again, arguments, see_possible
from harness.suites.state import Result, Verdict
from harness.terminal.exits import Exit

if TYPE_CHECKING:
    from checkers.verdict.verdict import RunResult

Judge = Callable[[Path], "RunResult"]
"""Judges a run's directory, and writes its report."""

_REASONS = 5


def perform(cell: Cell, directory: Path, judge: Judge, stop: Stop) -> Result | None:
    """Perform a cell in the suite's directory; None if it was interrupted. Whatever goes wrong is a result too."""
    try:
        see_possible(cell)
    except Skipped as skipped:
        return _result(cell, "skipped", [str(skipped)])
    log = directory / "logs" / cell.name
    ending = cell_process.run(arguments(cell, directory), log, cell.limit_s, stop)
    if ending.stopped:
        heal(directory)
        return None
    told: dict[str, Any] = {
        "seconds": ending.seconds,
        "log": str((log / "log.txt").relative_to(directory)),
        "run": _newest(directory, cell.name),
    }
    if ending.overdue:
        heal(directory)
        reason = f"it had not ended after {cell.limit_s:g} s, and was ended"
        return _result(cell, "crashed", [reason, *ending.last_words], **told)
    if cell.is_simulated:
        return _of_sweep(cell, ending, told, directory)
    if ending.status != Exit.VALID:
        heal(directory)
        return _result(cell, "crashed", [_how(ending.status), *ending.last_words], **told)
    return _of_run(cell, directory, told, judge)


def _of_run(cell: Cell, directory: Path, told: Mapping[str, Any], judge: Judge) -> Result:
    if told["run"] is None:
        return _result(cell, "crashed", ["it ended well, and left no run"], **told)
    try:
        judged = judge(directory / told["run"])
    except Exception as error:  # one history that breaks the checkers must not take the others along
        return _result(cell, "crashed", [f"it could not be judged: {' '.join(str(error).split())}"], **told)
    broken = {name: count.violations for name, count in judged.anomalies.items() if count.violations}
    return _result(
        cell,
        judged.verdict,
        judged.reasons,
        **told,
        counts={"acknowledged": judged.counts["sends_ok"], "faults": judged.counts["faults_took_hold"]},
        anomalies=broken,
    )


def _of_sweep(cell: Cell, ending: cell_process.Ending, told: Mapping[str, Any], directory: Path) -> Result:
    try:
        swept = json.loads(ending.stdout)
        failures, seeds = swept["failures"], swept["seeds"]
    except (ValueError, KeyError, TypeError):
        return _result(cell, "crashed", [_how(ending.status), *ending.last_words], **{**told, "run": None})
    stored = next((failure["stored"] for failure in failures if failure["stored"]), None)
    told = {**told, "run": None if stored is None else str(Path(stored).absolute().relative_to(directory))}
    reasons = [f"seed {failure['seed']}: {failure['findings'][0]['what']}" for failure in failures]
    verdict: Verdict = "invalid" if failures else "valid" if ending.status == Exit.VALID else "crashed"
    return _result(cell, verdict, reasons, **told, counts={"seeds": seeds}, anomalies=swept["failed_by_property"])


def _how(status: int) -> str:
    return f"it was killed by signal {-status}" if status < 0 else f"it ended with status {status}"


def _newest(directory: Path, name: str) -> str | None:
    found = runs(directory, name)
    return str(found[-1].relative_to(directory)) if found else None


def _result(
    cell: Cell,
    verdict: Verdict,
    reasons: Sequence[str],
    *,
    seconds: float = 0.0,
    run: str | None = None,
    log: str | None = None,
    counts: Mapping[str, int] | None = None,
    anomalies: Mapping[str, int] | None = None,
) -> Result:
    found = None
    if cell.anomaly is not None and verdict != "skipped":
        found = verdict == "invalid" and (cell.anomaly == "any" or cell.anomaly in (anomalies or {}))
    return Result(
        verdict=verdict,
        reasons=tuple(reasons[:_REASONS]),
        seconds=round(seconds, 1),
        run=run,
        log=log,
        counts=counts or {},
        anomalies=anomalies or {},
        again=shlex.join(again(cell)),
        canary_found=found,
    )
