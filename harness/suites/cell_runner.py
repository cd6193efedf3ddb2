"""Runs one cell of a suite: a child process that ends when the suite's does, then the checkers on the run it stored."""

from __future__ import annotations

import ctypes
import json
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.environments.machine.helpers.programs import module_command
from harness.run.stopping import POLL_S, Stop
from harness.store.heal import heal
from harness.store.run_directories import runs
from harness.suites.cells import Cell, Skipped, arguments, command_line, require_possible
from harness.suites.suite_state import CellResult, Verdict
from harness.terminal.exits import ExitStatus

if TYPE_CHECKING:
    from checkers.verdict.verdict import RunResult

_PR_SET_PDEATHSIG: Final = 1
HEAL_S: Final = 90.0
"""Time for a run that was asked to end to undo its faults and stop its nodes."""

_TAIL_LINES: Final = 5

Judge = Callable[[Path], "RunResult"]
"""Checks the run in a directory, and writes its report."""

_REASONS = 5


def run_cell(
    cell: Cell, directory: Path, judge: Judge, stop: Stop, attempt: int = 1, beside: int = 1
) -> CellResult | None:
    """Run a cell in the suite's directory; return None if it was interrupted. Every error is a result, too.

    `attempt` is 2 when it is run for the second time. `beside` is the number of cells that run at a time; only sweeps
    may run beside others.
    """
    try:
        require_possible(cell)
    except Skipped as skipped:
        return _result(cell, "skipped", [str(skipped)])
    log = directory / "logs" / (cell.name if attempt == 1 else f"{cell.name}-attempt-{attempt}")
    ending = run_process(arguments(cell, directory, beside), log, cell.limit_s, stop)
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


def _of_sweep(cell: Cell, ended: ProcessResult, details: Mapping[str, Any], directory: Path) -> CellResult:
    try:
        swept = json.loads(ended.stdout)
        failures, seeds = swept["failures"], swept["seeds"]
    except (ValueError, KeyError, TypeError):
        return _result(cell, "crashed", [_describe_exit(ended.status), *ended.log_tail], **{**details, "run": None})
    stored = next((failure["stored"] for failure in failures if failure["stored"]), None)
    details = {**details, "run": None if stored is None else str(Path(stored).absolute().relative_to(directory))}
    reasons = [f"seed {failure['seed']}: {failure['findings'][0]['what']}" for failure in failures]
    verdict: Verdict = "invalid" if failures else "valid" if ended.status == ExitStatus.VALID else "crashed"
    failed = tuple(failure["seed"] for failure in failures)
    found = _result(cell, verdict, reasons, **details, counts={"seeds": seeds}, anomalies=swept["failed_by_property"])
    return replace(found, failed_seeds=failed) if sum(found.anomalies.values()) == len(failed) else found


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


@dataclass(frozen=True)
class ProcessResult:
    """How a process ended."""

    status: int  # negative: the signal that killed it
    seconds: float
    stdout: str
    log_tail: tuple[str, ...]
    overdue: bool = False  # it was ended because it took too long
    stopped: bool = False  # it was ended because the suite was asked to end


def run_process(arguments: Sequence[str], directory: Path, limit_s: float, stop: Stop) -> ProcessResult:
    """Run `harrow` with these arguments until it ends; end it after the limit, or when `stop` is requested.

    Its output is kept in `directory`: `stdout.txt`, `log.txt`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    stdout, log = directory / "stdout.txt", directory / "log.txt"
    libc = ctypes.CDLL(None)

    def end_with_us() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    began_s = time.monotonic()
    with stdout.open("wb") as out, log.open("wb") as errors:
        process = subprocess.Popen(
            module_command("harness", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,  # Ctrl-C reaches this process, which passes it on
            preexec_fn=end_with_us,  # noqa: PLW1509 - nothing but one system call
        )
        overdue = stopped = False
        while process.poll() is None and not (overdue or stopped):
            time.sleep(POLL_S)
            stopped = stop.requested
            overdue = time.monotonic() - began_s > limit_s
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(HEAL_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    lines = log.read_text(errors="replace").splitlines()
    return ProcessResult(
        status=process.returncode,
        seconds=time.monotonic() - began_s,
        stdout=stdout.read_text(errors="replace"),
        log_tail=tuple(line for line in lines[-_TAIL_LINES:] if line.strip()),
        overdue=overdue,
        stopped=stopped,
    )
