"""Runs one simulation and prints it in detail."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click

from harness.store.run_directories import make_run_directory
from harness.store.run_names import plain
from harness.terminal.exits import ExitStatus
from simulation.engine.choices import SEED_FORMAT
from simulation.invariants.observer import property_observers
from simulation.runs import choice_files
from simulation.runs.failures import SimulationFinding, findings
from simulation.runs.trace import Line, TraceRecorder, trace_lines
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.overrides import repeat_command
from simulation.scenario.phases import SimulationOutcome


def run_case(case: Case, *, trace: bool, as_json: bool) -> ExitStatus:
    """Simulate and print the result; the exit status."""
    recorder = TraceRecorder()
    outcome = cases.run(case, property_observers(), (recorder,) if trace else (), to_the_end=True, keep_log=trace)
    found = findings(outcome)
    if as_json:
        click.echo(json.dumps(_data(outcome, found), indent=2))
    else:
        _print_configuration(outcome)
        if trace:
            for line in trace_lines(recorder, outcome.history, outcome.log_entries):
                click.echo(str(line))
        _print_outcome(case, outcome, found)
    return ExitStatus.ANOMALIES if found else ExitStatus.VALID


def run_file(path: Path, *, trace: bool, as_json: bool, store: Path) -> ExitStatus:
    """Run a choice file, or play a directed schedule (TOML); the exit status. A played schedule is stored."""
    if path.suffix == ".toml":
        return _play(path, trace=trace, as_json=as_json, store=store)
    try:
        choice_file = choice_files.load(path)
    except choice_files.ChoiceFileError as error:
        raise click.UsageError(str(error)) from error
    status = run_case(choice_file.case(), trace=trace, as_json=as_json)
    if not as_json and choice_file.property_id is not None:
        click.echo(f"expected           {choice_file.property_id}, hash {choice_file.digest}")
    return status


def _play(path: Path, *, trace: bool, as_json: bool, store: Path) -> ExitStatus:
    """Play a directed schedule on the build with its flaws and on the one without; store the first, with a report."""
    from harness.run.judging import write_report
    from simulation.directed import DirectedScheduleError, play_schedule
    from simulation.runs import stored

    try:
        correct = play_schedule(path, flawed=False)
        directory = make_run_directory(store, plain(["schedule", path.stem]), None)
        flawed = stored.store_schedule_run(directory, path, flawed=True)
    except DirectedScheduleError as error:
        raise click.UsageError(str(error)) from error
    schedule = flawed.schedule
    report = write_report(directory, partial(click.echo, err=True))
    if as_json:
        data = {"schedule": schedule.title, "flaws": list(schedule.flaws), **_data(flawed.outcome, [*flawed.findings])}
        data["correct"] = [finding._asdict() for finding in correct.findings]
        click.echo(json.dumps(data, indent=2))
    else:
        click.echo(f"{schedule.title}\n\n{schedule.story}\n")
        for at_us, node_id, text in flawed.outcome.log_entries if trace else ():
            click.echo(str(Line(at_us, node_id, text)))
        for build, result in ((f"with {', '.join(schedule.flaws) or 'no flaw'}", flawed), ("without", correct)):
            click.echo(f"{build}: {'nothing wrong' if not result.findings else ''}".rstrip())
            for finding in result.findings:
                click.echo(f"  {finding.layer}: {finding}")
        if report is not None:
            click.echo(f"report: {report}")
    return ExitStatus.ANOMALIES if flawed.failed or correct.failed else ExitStatus.VALID


def _print_configuration(outcome: SimulationOutcome) -> None:
    click.echo(f"seed               {outcome.seed} (choice format {SEED_FORMAT})")
    for key, value in outcome.configuration.to_json().items():
        text = ", ".join(value) or "none" if isinstance(value, tuple) else value
        click.echo(f"  {key:<26} {text}")
    click.echo(f"faults             {len(outcome.faults) or 'none'}")
    for fault in outcome.faults:
        click.echo(
            f"  {fault.at_ms / 1000:9.3f} s  {fault.kind} for {fault.duration_ms / 1000:.3f} s"
            f" (target {fault.target}, parameter {fault.parameter})"
            + (f" once {fault.when}" if fault.when is not None else "")
        )


def _print_outcome(case: Case, outcome: SimulationOutcome, found: list[SimulationFinding]) -> None:
    counts: dict[str, int] = {}
    for operation in outcome.history.operations:
        counts[operation.status] = counts.get(operation.status, 0) + (operation.kind == "send")
    sends = ", ".join(f"{count} {status}" for status, count in sorted(counts.items(), reverse=True) if count)
    click.echo(f"sends              {sends or 'none'}; {len(outcome.history.reads)} records read")
    click.echo(f"virtual time       {outcome.virtual_ms / 1000:.3f} s, {outcome.events:,} events")
    click.echo(f"outcome            {'nothing wrong' if not found else ''}".rstrip())
    for finding in found:
        click.echo(f"  {finding.layer}: {finding}")
    click.echo(f"hash               {outcome.digest}")
    if case.streams is None:
        click.echo(f"again              {repeat_command(['sim', '--seed', str(case.seed)], case.overrides)}")
        if found:
            click.echo(f"smaller            {repeat_command(['shrink', str(case.seed)], case.overrides)}")


def _data(outcome: SimulationOutcome, found: list[SimulationFinding]) -> dict[str, object]:
    return {
        "seed": outcome.seed,
        "format": SEED_FORMAT,
        "configuration": outcome.configuration.to_json(),
        "faults": [fault.to_json() for fault in outcome.faults],
        "findings": [finding._asdict() for finding in found],
        "virtual_ms": outcome.virtual_ms,
        "events": outcome.events,
        "hash": outcome.digest,
        "marks": dict(sorted(outcome.marks.items())),
    }
