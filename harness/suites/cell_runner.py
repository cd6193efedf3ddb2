"""Runs one cell of a suite: its process, then the checkers on the run that it stored."""

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
from harness.suites.cells import Cell, Skipped, arguments, command_line, require_possible
from harness.suites.state import CellResult, Verdict
from harness.terminal.exits import ExitStatus

if TYPE_CHECKING:
    from checkers.verdict.verdict import RunResult

Judge = Callable[[Path], "RunResult"]
"""Checks the run in a directory, and writes its report."""

_REASONS = 5


def run_cell(cell: Cell, directory: Path, judge: Judge, stop: Stop) -> CellResult | None:
    """Run a cell in the suite's directory; return None if it was interrupted. Every error is a result, too."""
    try:
        require_possible(cell)
    except Skipped as skipped:
        return _result(cell, "skipped", [str(skipped)])
    log = directory / "logs" / cell.name
    ending = cell_process.run(arguments(cell, directory), log, cell.limit_s, stop)
    if ending.stopped:
        heal(directory)
        return None
    details: dict[str, Any] = {
        "seconds": ending.seconds,
        "log": str((log / "log.txt").relative_to(directory)),
        "run": _newest(directory, cell.name),
    }
    if ending.overdue:
        heal(directory)
        reason = f"the process was ended after its limit of {cell.limit_s:g} s"
        return _result(cell, "crashed", [reason, *ending.log_tail], **details)
    if cell.is_simulated:
        return _of_sweep(cell, ending, details, directory)
    if ending.status != ExitStatus.VALID:
        heal(directory)
        return _result(cell, "crashed", [_describe_exit(ending.status), *ending.log_tail], **details)
    return _of_run(cell, directory, details, judge)


def _of_run(cell: Cell, directory: Path, details: Mapping[str, Any], judge: Judge) -> CellResult:
    if details["run"] is None:
        return _result(cell, "crashed", ["the process succeeded but stored no run"], **details)
    try:
        judged = judge(directory / details["run"])
    except Exception as error:  # one history that breaks the checkers must not end the suite
        return _result(cell, "crashed", [f"the checkers failed: {' '.join(str(error).split())}"], **details)
    broken = {name: count.violations for name, count in judged.anomalies.items() if count.violations}
    return _result(
        cell,
        judged.verdict,
        judged.reasons,
        **details,
        counts={"acknowledged": judged.counts["sends_ok"], "faults": judged.counts["faults_took_hold"]},
        anomalies=broken,
    )


def _of_sweep(cell: Cell, ended: cell_process.ProcessResult, details: Mapping[str, Any], directory: Path) -> CellResult:
    try:
        swept = json.loads(ended.stdout)
        failures, seeds = swept["failures"], swept["seeds"]
    except (ValueError, KeyError, TypeError):
        return _result(cell, "crashed", [_describe_exit(ended.status), *ended.log_tail], **{**details, "run": None})
    stored = next((failure["stored"] for failure in failures if failure["stored"]), None)
    details = {**details, "run": None if stored is None else str(Path(stored).absolute().relative_to(directory))}
    reasons = [f"seed {failure['seed']}: {failure['findings'][0]['what']}" for failure in failures]
    verdict: Verdict = "invalid" if failures else "valid" if ended.status == ExitStatus.VALID else "crashed"
    return _result(cell, verdict, reasons, **details, counts={"seeds": seeds}, anomalies=swept["failed_by_property"])


def _describe_exit(status: int) -> str:
    return f"the process was killed by signal {-status}" if status < 0 else f"the process ended with status {status}"


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
) -> CellResult:
    found = None
    if cell.anomaly is not None and verdict != "skipped":
        found = verdict == "invalid" and (cell.anomaly == "any" or cell.anomaly in (anomalies or {}))
    return CellResult(
        verdict=verdict,
        reasons=tuple(reasons[:_REASONS]),
        seconds=round(seconds, 1),
        run=run,
        log=log,
        counts=counts or {},
        anomalies=anomalies or {},
        again=shlex.join(command_line(cell)),
        canary_found=found,
    )
