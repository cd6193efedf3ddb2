"""The entry point of the command `harrow`: its subcommands, and how errors reach the user."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from common.names import SpecError
from harness.commands.groups import LazyCommand, LazyGroup, about_option
from harness.run.stopping import MissingPrerequisite, sigterm_interrupts
from harness.store.run_directories import StoreError
from harness.terminal.exits import ExitStatus, describe, is_own_error
from nemesis.schedule import ScheduleError

DEBUG = "--debug"


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Exit status: 0 valid, 1 anomalies, 2 usage, 3 unknown, 4 the harness failed.",
)
@click.option(DEBUG, is_flag=True, help="Show the trace of an error.")
@click.version_option(package_name="harrow")
@click.pass_context
def harrow(context: click.Context, debug: bool) -> None:  # noqa: ARG001 (`main` looks for it)
    """Chaos-test a Kafka-protocol cluster and check whether it kept its guarantees.

    \b
    harrow doctor                  check what this machine can do
    harrow run                     a minute of faults against three brokers, a verdict, a report
    harrow run --seed 7            the same faults again
    harrow sim --seeds 1:1000      a thousand simulated clusters
    harrow explain latest          what went wrong in the newest run, and why
    harrow check store/latest      check a stored run again
    harrow heal                    clean up after a harness that was killed
    """  # noqa: D301 (\b is for click)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


harrow.entries = {
    "run": LazyCommand("harness.commands.run", "Inject faults into a cluster and check it."),
    "suite": LazyCommand("harness.commands.suite", "Run a matrix of runs."),
    "sim": LazyCommand("harness.commands.simulation.sim", "Simulate clusters, each determined by a seed."),
    "replay": LazyCommand("harness.commands.check", "Repeat a stored run."),
    "shrink": LazyCommand("harness.commands.simulation.shrink", "Minimize a failing simulation."),
    "explain": LazyCommand("harness.commands.simulation.explain", "Say what went wrong in a seed or a run, and why."),
    "known-flaws": LazyCommand(
        "harness.commands.simulation.known_flaws", "Hunt for every known flaw in simulation.", "known_flaws"
    ),
    "check": LazyCommand("harness.commands.check", "Check stored runs and foreign histories."),
    "report": LazyCommand("harness.commands.check", "Write the report of a stored run again."),
    "lift": LazyCommand("harness.commands.stored_runs.lift", "Find a simulation that has the incident of a real run."),
    "diff": LazyCommand("harness.commands.stored_runs.diff", "Show what differs between two stored runs."),
    "serve": LazyCommand("harness.commands.stored_runs.serve", "Show the store in a web browser."),
    "prune": LazyCommand("harness.commands.stored_runs.prune", "Remove stored runs by age, number and size."),
    "heal": LazyCommand("harness.commands.heal", "Clean up after harnesses that were killed."),
    "doctor": LazyCommand("harness.commands.heal", "Check what this machine can do."),
    "cluster": LazyCommand("harness.commands.cluster", "Start and stop an interactive cluster."),
    "fault": LazyCommand("harness.commands.cluster", "Inject one fault into the interactive cluster."),
    "broker": LazyCommand("harness.commands.cluster", "Run one node of Harrow's own broker."),
    "faults": LazyCommand("harness.commands.lists", "List the faults."),
    "flaws": LazyCommand("harness.commands.lists", "List the known flaws of Harrow's own broker."),
    "suites": LazyCommand("harness.commands.lists", "List the suites that come with Harrow."),
    "systems": LazyCommand("harness.commands.lists", "List the other brokers that Harrow can test."),
    "schedules": LazyCommand("harness.commands.lists", "List the schedules that come with Harrow."),
}
harrow.aliases = {"zoo": "known-flaws"}  # its former name


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; every error is one line on standard error and an exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    given = [word for word in given if word != DEBUG]
    try:
        with sigterm_interrupts():
            sys.exit(harrow.main(given, prog_name="harrow", standalone_mode=False))
    except click.NoSuchOption as error:
        _fail(error, _with_help(about_option(error), error), ExitStatus.USAGE, debug)
    except click.ClickException as error:
        _fail(error, _with_help(error.format_message().rstrip("."), error), ExitStatus.USAGE, debug)
    except (SpecError, ScheduleError, StoreError, MissingPrerequisite) as error:  # nothing was started
        _fail(error, str(error), ExitStatus.USAGE, debug)
    except (KeyboardInterrupt, click.Abort) as error:
        _fail(error, "interrupted", ExitStatus.UNKNOWN, debug)
    except Exception as error:  # every error must reach the user as a line and an exit status
        _fail(error, _line(error), ExitStatus.FAILED, debug)


def _fail(error: BaseException, line: str, status: ExitStatus, debug: bool) -> None:
    if debug:
        traceback.print_exception(error)
    click.echo(f"harrow: {line}", err=True)
    sys.exit(status)


def _with_help(line: str, error: click.ClickException) -> str:
    """The line, and the command that shows more help."""
    return f"{line}{'' if line.endswith('?') else ';'} see `{_where(error)} --help`"


def _where(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "harrow"


def _line(error: Exception) -> str:
    return describe(error) if is_own_error(error) else f"{describe(error)}; --debug shows the trace"
