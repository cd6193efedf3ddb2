"""`harrow run`: the whole of it, from a specification to a verdict."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from harness.commands.parts.starting import before_start
from harness.commands.parts.stores import command_for, store_option
from harness.run.stopping import Interrupted
from harness.shipped import SCHEDULES
from harness.spec import spec as specs
from harness.spec.spec import Spec
from harness.store.run_names import of_run
from harness.terminal.exits import VERDICTS, Exit
from naming import SpecError
from nemesis import schedule as schedules
from nemesis.faults import KINDS
from nemesis.schedule import Schedule
from nemesis.schedule_file import loads_file

if TYPE_CHECKING:
    from harness.environments.base import System
    from harness.run.phases.stage import Plan
    from harness.terminal.progress import Progress

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Asked(NamedTuple):
    """A run that has been asked for, and can begin."""

    spec: Spec
    schedule: Schedule
    system: System
    name: str
    schedule_name: str | None  # of one that was not drawn; empty: it has none


def _flags(command: _Command) -> _Command:
    """Add one flag for each field of the specification; none has a default, so that a file may say the rest."""
    for names, settings in reversed(_FLAGS):
        command = click.option(*names, default=None, **settings)(command)
    return command


def _flag(*names: str, told: str, **settings: Any) -> tuple[tuple[str, ...], dict[str, Any]]:  # noqa: ANN401
    return names, {"help": told, **settings}


_FLAGS = (
    _flag("--system", metavar="NAME|FILE", told="Another broker than Harrow's own: see `harrow systems`."),
    _flag("--environment", metavar="NAME", told="Where the cluster runs: local (the default), docker or ssh."),
    _flag("--brokers", type=int, metavar="N", told="Number of brokers (3)."),
    _flag("--controllers", type=int, metavar="N", told="Number of controllers, which vote on the metadata (1)."),
    _flag("--combined/--no-combined", told="Have the first of the brokers be the controllers, too (off)."),
    _flag("--partitions", type=int, metavar="N", told="Partitions of the topic (4)."),
    _flag("--replication-factor", type=int, metavar="N", told="Replicas of each partition (3)."),
    _flag("--min-insync-replicas", type=int, metavar="N", told="min.insync.replicas (2)."),
    _flag("--acks", metavar="all|1|0", told="What producers wait for (all)."),
    _flag("--idempotence/--no-idempotence", told="Idempotent producers (on with acks all)."),
    _flag("--unclean-election/--no-unclean-election", told="Allow unclean leader elections (off)."),
    _flag("--flush", metavar="POLICY", told="When brokers sync: never (default), every-write, N (writes), or Nms."),
    _flag("--workload", metavar="NAME", told="What clients do: log (the default), register, queue, groups or admin."),
    _flag("--client", metavar="NAME", told="Client library: kafka-python (the default), aiokafka, confluent-kafka."),
    _flag(
        "--faults",
        metavar="LIST",
        told="Faults or families of them, with commas, a+b for two at once; or usual (the default), all or none.",
    ),
    _flag("--intensity", type=int, metavar="N", told="How many faults may hold at a time, 1 to 4 (1)."),
    _flag("--swarm/--no-swarm", told="Leave some of the faults out, drawn from the seed (off)."),
    _flag("--interval", type=float, metavar="SECONDS", told="Mean time from one fault to the next (6)."),
    _flag("--duration", type=float, metavar="SECONDS", told="Length of the main phase (60)."),
    _flag("--rate", type=float, metavar="N", told="Sends a second, of all workers together (600)."),
    _flag("--concurrency", type=int, metavar="N", told="Logical processes that send: the most sends in flight (16)."),
    _flag("--seed", type=int, metavar="N", told="Decides faults and operations; drawn and told if not given."),
    _flag(
        "--flaw",
        "flaws",
        multiple=True,
        metavar="NAME",
        told="Put a flaw into the broker; see `harrow flaws`. Repeatable.",
    ),
    _flag("--generation", metavar="NAME", told="Rules that the broker follows: K1 to K5 (K5, the latest)."),
    _flag("--network", metavar="HOW", told="auto (default), namespaces or proxies."),
    _flag("--page-cache", metavar="HOW", told="auto (default), ext4, fuse, page-cache or power-cut."),
    _flag(
        "--image", metavar="NAME", told="Docker: image of the broker (the definition's; made of this machine's Python)."
    ),
    _flag("--node-memory", type=int, metavar="MIB", told="Docker: memory of a node (512)."),
    _flag("--node-cpus", type=float, metavar="N", told="Docker: processors of a node (0: all)."),
    _flag("--inventory", metavar="FILE", told="Run on the hosts that this TOML file names, by SSH."),
    _flag("--vms", type=int, metavar="N", told="Run N brokers in QEMU VMs on this machine; controllers get one each."),
    _flag("--name", metavar="NAME", told="Name of the run in the store (what it is: environment, workload, faults)."),
)


@click.command("run")
@click.argument("file", metavar="[SPEC]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_flags
@click.option(
    "--schedule",
    "schedule_named",
    metavar="NAME|FILE",
    help="Fire these faults instead of drawing them: see `harrow schedules`, a TOML file, or a stored schedule.json.",
)
@click.option("--check/--no-check", default=True, help="Judge the run and write its report (on).")
@store_option
def run(file: Path | None, schedule_named: str | None, check: bool, store: Path, **flags: Any) -> None:  # noqa: ANN401
    """Stand a cluster up, torment it under real clients, and judge whether it kept its promises.

    SPEC is a TOML file with the same settings as the flags, or the spec.json of a stored run; flags override it.

    \b
    harrow run                                         the main job: 60 s, the usual faults, a new seed
    harrow run --seed 7 --faults kill,pause            the same faults at the same times, again and again
    harrow run --flaw ack-before-replication           a broker that lies; Harrow finds out
    harrow run --acks 1 --faults kill,isolate          what acks=1 loses, and that it was allowed to
    harrow run --brokers 5 --controllers 3             a quorum of controllers, which are among the targets
    harrow run --controllers 3 --combined              the three brokers vote on the metadata themselves
    harrow run --system apache-kafka                   somebody else's broker; see docs/systems.md
    harrow run --schedule last-replica-standing        faults that were written down, not drawn
    harrow run nightly.toml --duration 600
    harrow run store/latest/spec.json --schedule store/latest/schedule.json

    Exit status: 0 valid, 1 anomalies, 2 usage, 3 unknown, 4 the harness could not do its work.
    """  # noqa: D301 (\b is for click)
    from harness.environments import registry
    from harness.systems import selection

    spec = _spec(file, flags)
    schedule_file = None if schedule_named is None else _schedule_file(schedule_named)
    with before_start():
        system = selection.make(spec)
        name = of_run(spec, system.name, "" if schedule_file is None else schedule_file.stem)
        spec = registry.settled(spec, system)
        schedule = _schedule(spec, schedule_file)
        _check(spec, schedule, system)
    known = None if schedule_named is None else SCHEDULES.name_of(schedule_named)
    asked = Asked(spec, schedule, system, name, None if schedule_file is None else known or "")
    sys.exit(_run(asked, store, check=check))


def _spec(file: Path | None, flags: dict[str, Any]) -> Spec:
    from harness.systems import selection

    given: dict[str, Any] = specs.from_file(file) if file is not None else {}
    given |= {key: value for key, value in flags.items() if value not in (None, ())}
    return specs.resolve(selection.with_defaults(given), secrets.randbelow(specs.SEEDS))


def _schedule_file(named: str) -> Path:
    from simulation.directed.files import STORIES

    if SCHEDULES.name_of(named) is None and STORIES.name_of(named) is not None:
        raise SpecError(f"expected a schedule of faults, found one in steps: {named}; harrow sim --schedule {named}")
    return SCHEDULES.find(named)


def _schedule(spec: Spec, file: Path | None) -> Schedule:
    if file is not None:
        return loads_file(file)
    return schedules.draw(
        spec.seed,
        schedules.swarm(spec.seed, spec.faults) if spec.swarm else spec.faults,
        int(spec.duration * 1000),
        int(spec.interval * 1000),
        spec.partitions,
        spec.lossy_budget,
        spec.controllers,
        spec.intensity,
        spec.brokers,
    )


def _check(spec: Spec, schedule: Schedule, system: System) -> None:
    from harness.doctor.remedies.table import to_install
    from harness.environments import registry
    from workloads.clients import client_named
    from workloads.clients.administration import admin_library
    from workloads.clients.base import ClientMissingError
    from workloads.clients.groups import group_library

    try:
        library = client_named(spec.client)
        if spec.workload == "groups":
            group_library(library)
        if spec.workload == "admin":
            admin_library(library)
    except ClientMissingError as error:
        raise SpecError(f"{error}{f'; {to_install(error.distribution)}' if error.distribution else ''}") from error
    wanted = [KINDS[part] for fault in spec.faults for part in schedules.parts(fault)]
    registry.check(spec, [*schedules.kinds_of(schedule), *wanted], system)


def _run(asked: Asked, store: Path, *, check: bool) -> Exit:
    from harness.run.judging import WarmSpark, judge, need_java
    from harness.run.phases.stage import Plan
    from harness.run.reporting import write_report
    from harness.store.store import make_run_directory
    from harness.terminal import consoles
    from harness.terminal.progress import Progress
    from reports.text.terminal import summary_lines

    if check:
        need_java()
    spec = asked.spec
    directory = make_run_directory(store, asked.name, spec.seed)
    again = asked.schedule_name
    command = specs.reproduce(spec, str((directory / "schedule.json").absolute()) if again == "" else again)
    spark = WarmSpark()
    try:
        with Progress(consoles.progress()) as progress:
            progress.note(f"seed {spec.seed}; history in {directory}; again: {command}")
            plan = Plan(spec, asked.schedule, directory, command, asked.name)
            heal = command_for(store, "heal")
            _perform(plan, asked.system, progress, heal, spark.start if check else lambda: None)
            if not check:
                click.echo(f"history: {directory}; see `harrow check {directory}`")
                return Exit.VALID
            progress.phase("check", "Spark reads the history")
            verdict = judge([directory], spark.session())[0]
            progress.phase("report")
            page = write_report(directory, progress)
    except (Interrupted, KeyboardInterrupt):
        told = f"interrupted; nothing of it is running; the history is in {directory}"
        click.echo(f"harrow: {told}; see `harrow check {directory}`", err=True)
        return Exit.UNKNOWN
    except Exception:
        click.echo(f"harrow: the history is in {directory}; see `harrow check {directory}`", err=True)
        raise
    console = consoles.results()
    console.print(summary_lines(directory), soft_wrap=True)
    if page is not None:
        console.print(f"report: {page}", soft_wrap=True)
    return VERDICTS[verdict]


def _perform(plan: Plan, system: System, progress: Progress, heal: str, when_at_rest: Callable[[], None]) -> None:
    """Run the cluster; Ctrl-C and SIGTERM end it in good order."""
    from harness.environments import registry
    from harness.run import runner
    from harness.run.stopping import Stop, on_signals

    needs = frozenset().union(*(kind.needs for kind in schedules.kinds_of(plan.schedule)))
    make = partial(registry.make, plan.spec, needs, plan.directory, system)
    stop = Stop()
    with on_signals(stop, heal):
        runner.run(plan, system, make, progress, stop, when_at_rest)
