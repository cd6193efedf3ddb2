"""The command `harrow`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from harness.commands.parts.lazy import Entry, LazyGroup
from harness.commands.parts.names import about_option
from harness.run.stopping import Lacking, sigterm_interrupts
from harness.store.store import StoreError
from harness.terminal.errors import describe, is_ours
from harness.terminal.exits import Exit
from naming import SpecError
from nemesis.schedule import ScheduleError

DEBUG = "--debug"


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Exit status: 0 valid, 1 anomalies, 2 usage, 3 unknown, 4 the harness could not do its work.",
)
@click.option(DEBUG, is_flag=True, help="Show where an error comes from.")
@click.version_option(package_name="harrow")
@click.pass_context
def harrow(context: click.Context, debug: bool) -> None:  # noqa: ARG001 (`main` looks for it)
    """Torment a Kafka-protocol cluster and judge whether it kept its promises.

    \b
    harrow doctor                  what this machine can do
    harrow run                     a minute of faults against three brokers, a verdict, a report
    harrow run --seed 7            the same faults again
    harrow sim --seeds 1:1000      a thousand simulated clusters
    harrow check store/latest      judge a stored run again
    harrow heal                    clean up after a harness that was killed
    """  # noqa: D301 (\b is for click)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


harrow.entries = {
    "run": Entry("harness.commands.run", "Torment a cluster and judge it."),
    "suite": Entry("harness.commands.suite", "Perform a matrix of runs."),
    "sim": Entry("harness.commands.simulation.sim", "Simulate clusters; a seed decides everything."),
    "replay": Entry("harness.commands.simulation.replay", "Run a stored run again."),
    "shrink": Entry("harness.commands.simulation.shrink", "Make a failing simulation as small as possible."),
    "known-flaws": Entry(
        "harness.commands.simulation.known_flaws", "Search for every known flaw in simulation.", "known_flaws"
    ),
    "check": Entry("harness.commands.check", "Judge stored runs again."),
    "report": Entry("harness.commands.check", "Write the report of a stored run again."),
    "heal": Entry("harness.commands.heal", "Undo what killed harnesses left behind."),
    "doctor": Entry("harness.commands.heal", "Tell what this machine can do."),
    "cluster": Entry("harness.commands.cluster", "Keep a cluster for exploring by hand."),
    "fault": Entry("harness.commands.cluster", "Inject one fault into that cluster."),
    "broker": Entry("harness.commands.broker", "Run one node of the broker by hand."),
    "faults": Entry("harness.commands.lists", "List the faults."),
    "flaws": Entry("harness.commands.lists", "List the flaws of the broker."),
    "suites": Entry("harness.commands.lists", "List the suites that come with Harrow."),
    "systems": Entry("harness.commands.lists", "List the other brokers that Harrow knows."),
    "schedules": Entry("harness.commands.lists", "List the schedules that come with Harrow."),
}
harrow.aliases = {"zoo": "known-flaws"}  # its former name


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; every error is one line on standard error, and an exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    given = [word for word in given if word != DEBUG]
    try:
        with sigterm_interrupts():
            sys.exit(harrow.main(given, prog_name="harrow", standalone_mode=False))
    except click.NoSuchOption as error:
        _tell(error, _with_help(about_option(error), error), Exit.USAGE, debug)
    except click.ClickException as error:
        _tell(error, _with_help(error.format_message().rstrip("."), error), Exit.USAGE, debug)
    except (SpecError, ScheduleError, StoreError, Lacking) as error:  # nothing was started
        _tell(error, str(error), Exit.USAGE, debug)
    except (KeyboardInterrupt, click.Abort) as error:
        _tell(error, "interrupted", Exit.UNKNOWN, debug)
    except Exception as error:  # whatever it is, it must reach the user as a line and a status
        _tell(error, _line(error), Exit.FAILED, debug)


def _tell(error: BaseException, line: str, status: Exit, debug: bool) -> None:
    if debug:
        traceback.print_exception(error)
    click.echo(f"harrow: {line}", err=True)
    sys.exit(status)


def _with_help(line: str, error: click.ClickException) -> str:
    """The line, and where to read more."""
    return f"{line}{'' if line.endswith('?') else ';'} see `{_where(error)} --help`"


def _where(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "harrow"


def _line(error: Exception) -> str:
    return describe(error) if is_ours(error) else f"{describe(error)}; --debug shows where it comes from"
