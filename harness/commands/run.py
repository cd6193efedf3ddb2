"""The command `harrow run`: performs one run, from its specification to its verdict."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from common.names import SpecError
from harness.commands.shared import before_start, command_for, store_option
from harness.run.stopping import Interrupted
from harness.shipped import SCHEDULES
from harness.spec import spec as specs
from harness.spec.designs import ON_ZOOKEEPER
from harness.spec.spec import Spec
from harness.store.run_names import of_run
from harness.terminal.exits import VERDICTS, ExitStatus
from nemesis import drawing
from nemesis import schedule as schedules
from nemesis.recipes import kinds_in
from nemesis.schedule import Schedule, with_upgrade
from nemesis.schedule_file import loads_file

if TYPE_CHECKING:
    from harness.environments.base import System
    from harness.run.context import Plan
    from harness.store.node_data import Keep
    from harness.terminal.console import RunProgress

_Command = TypeVar("_Command", bound=Callable[..., Any])


class RunRequest(NamedTuple):
    """A run that was requested and checked, and can start."""

    spec: Spec
    schedule: Schedule
    system: System
    name: str
    schedule_name: str | None  # None: the schedule was drawn; empty: it is a file without a name


def _flags(command: _Command) -> _Command:
    """Add a flag for each field of the specification, without a default: a specification file may set the others."""
    for names, settings in reversed(_FLAGS):
        command = click.option(*names, default=None, **settings)(command)
    return command


def _flag(*names: str, text: str, **settings: Any) -> tuple[tuple[str, ...], dict[str, Any]]:  # noqa: ANN401
    return names, {"help": text, **settings}


_FLAGS = (
    _flag("--system", metavar="NAME|FILE", text="Test another broker than Harrow's own: see `harrow systems`."),
    _flag(
        "--environment",
        metavar="NAME",
        text="Where the cluster runs: local (the default), docker or ssh; --bootstrap means existing.",
    ),
    _flag("--brokers", type=int, metavar="N", text="Number of brokers (3)."),
    _flag(
        "--controllers",
        type=int,
        metavar="N",
        text="Number of controllers, the voters of the metadata quorum (1); on ZooKeeper members of the ensemble (3).",
    ),
    _flag("--combined/--no-combined", text="Let the first brokers be the controllers, too (off)."),
    _flag("--partitions", type=int, metavar="N", text="Partitions of the topic (4)."),
    _flag("--replication-factor", type=int, metavar="N", text="Replicas per partition (3)."),
    _flag("--min-insync-replicas", type=int, metavar="N", text="min.insync.replicas (2)."),
    _flag("--acks", metavar="all|1|0", text="Acknowledgements that producers wait for (all)."),
    _flag("--idempotence/--no-idempotence", text="Idempotent producers (on with acks all)."),
    _flag("--unclean-election/--no-unclean-election", text="Allow unclean leader elections (off)."),
    _flag("--flush", metavar="POLICY", text="When brokers sync: never (default), every-write, N (writes), or Nms."),
    _flag(
        "--workload",
        metavar="NAME",
        text="Workload of the clients: log (the default), register, queue, groups or admin.",
    ),
    _flag("--client", metavar="NAME", text="Client library: kafka-python (the default), aiokafka, confluent-kafka."),
    _flag("--clients", metavar="LIST", text="Several client libraries in one run, with commas, a process each."),
    _flag("--assignor", metavar="NAME", text="How groups move partitions: eager (the default) or cooperative."),
    _flag("--static-members/--no-static-members", text="Static members of groups, KIP-345 (off)."),
    _flag(
        "--faults",
        metavar="LIST",
        text="Faults or families of faults, with commas, a+b for two at once; or usual (the default), all or none.",
    ),
    _flag("--intensity", type=int, metavar="N", text="Maximum number of simultaneous faults, 1 to 4 (1)."),
    _flag("--swarm/--no-swarm", text="Use a subset of the faults, drawn from the seed (off)."),
    _flag("--interval", type=float, metavar="SECONDS", text="Mean time between the starts of two faults (6)."),
    _flag("--duration", type=float, metavar="SECONDS", text="Length of the main phase (60)."),
    _flag("--rate", type=float, metavar="N", text="Sends per second, over all workers (600)."),
    _flag(
        "--concurrency",
        type=int,
        metavar="N",
        text="Logical processes that send, hence the maximum number of sends in flight (16).",
    ),
    _flag("--seed", type=int, metavar="N", text="Seed of faults and operations; drawn and printed if not given."),
    _flag(
        "--flaw",
        "flaws",
        multiple=True,
        metavar="NAME",
        text="Enable a known flaw of Harrow's own broker; see `harrow flaws`. Repeatable.",
    ),
    _flag(
        "--generation",
        metavar="NAME",
        text="Protocol version of Harrow's own broker: K1 to K5 (K5, the latest); on ZooKeeper zk-v1, zk-v2, C1 to C3.",
    ),
    _flag(
        "--upgrade-to",
        metavar="NAME|FILE",
        text="Upgrade the running cluster, node by node: to a later protocol version, or another --system.",
    ),
    _flag("--network", metavar="HOW", text="auto (default), namespaces or proxies."),
    _flag("--page-cache", metavar="HOW", text="auto (default), ext4, fuse, page-cache or power-cut."),
    _flag(
        "--image",
        metavar="NAME",
        text="Docker: image of the broker (the definition's; Harrow's own: built from this machine's Python).",
    ),
    _flag("--node-memory", type=int, metavar="MIB", text="Docker: memory per node (512)."),
    _flag("--node-cpus", type=float, metavar="N", text="Docker: processors per node (0: all)."),
    _flag(
        "--bootstrap",
        metavar="HOST:PORT[,…]",
        text="Test a cluster that runs already: clients and checkers, and the faults of its definition's hooks.",
    ),
    _flag("--client-config", metavar="FILE", text="With --bootstrap: TLS and SASL, as key=value lines."),
    _flag("--inventory", metavar="FILE", text="Run on the hosts in this TOML file, by SSH."),
    _flag(
        "--vms", type=int, metavar="N", text="Run N brokers in QEMU VMs on this machine, each controller in another."
    ),
    _flag("--name", metavar="NAME", text="Name of the run in the store (environment, workload and faults)."),
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
@click.option(
    "--keep",
    default="nodes=failing",
    show_default=True,
    metavar="nodes=failing|all|none",
    help="What nodes have stored: keep that of partitions with violations, all, or none.",
)
@click.option("--check/--no-check", default=True, help="Check the history and write the report (on).")
@store_option
def run(
    file: Path | None,
    schedule_named: str | None,
    keep: str,
    check: bool,
    store: Path,
    **flags: Any,  # noqa: ANN401
) -> None:
    """Start a cluster, inject faults under real clients, and check whether it kept its guarantees.

    SPEC is a TOML file with the settings of the flags, or the spec.json of a stored run; flags override it.

    \b
    harrow run                                         60 s, the usual faults, a new seed
    harrow run --seed 7 --faults kill,pause            the same faults at the same times in each run
    harrow run --flaw ack-before-replication           a broker that acknowledges too early: INVALID
    harrow run --acks 1 --faults kill,isolate          losses that acks=1 allows
    harrow run --brokers 5 --controllers 3             a quorum of controllers, which are targets of faults, too
    harrow run --controllers 3 --combined              three nodes, each broker and controller
    harrow run --generation zk-v2                      brokers of before KRaft, with a real ensemble of ZooKeeper
    harrow run --system apache-kafka                   another broker; see docs/guide/systems.md
    harrow run --generation K4 --upgrade-to K5         an upgrade of the running cluster, node by node
    harrow run --bootstrap staging:9092                a cluster that runs; see docs/guide/your-own-cluster.md
    harrow run --bootstrap staging:9093 --client-config staging.properties   with TLS or SASL
    harrow run --schedule last-replica-standing        the faults of a schedule file, not drawn ones
    harrow run nightly.toml --duration 600
    harrow run store/latest/spec.json --schedule store/latest/schedule.json

    Exit status: 0 valid, 1 anomalies, 2 usage, 3 unknown, 4 the harness failed.
    """  # noqa: D301 (\b is for click)
    from harness.environments import possible_faults
    from harness.store.node_data import read_keep
    from harness.systems.factory import make_system

    kept = read_keep(keep)
    with before_start():
        spec = _spec(file, flags)
    schedule_file = None if schedule_named is None else _schedule_file(schedule_named)
    with before_start():
        system = make_system(spec)
        name = of_run(spec, system.name, "" if schedule_file is None else schedule_file.stem)
        spec = possible_faults.expand_families(spec, system)
        schedule = _schedule(spec, schedule_file)
        if spec.upgrade_to:
            schedule = with_upgrade(schedule, int(spec.duration * 1000), system.traits.upgrades_first)
        _check(spec, schedule, system)
        if spec.generation in ON_ZOOKEEPER:
            from harness.systems.own import ensemble

            ensemble.version(spec)  # which fails where the members cannot run
    known = None if schedule_named is None else SCHEDULES.name_of(schedule_named)
    request = RunRequest(spec, schedule, system, name, None if schedule_file is None else known or "")
    sys.exit(_run(request, store, kept, check=check))


def _spec(file: Path | None, flags: dict[str, Any]) -> Spec:
    from harness.systems.factory import with_defaults

    if flags.get("bootstrap") == "":
        raise SpecError("bootstrap: expected HOST:PORT, with commas between several, found ''")
    given: dict[str, Any] = specs.from_file(file) if file is not None else {}
    given |= {key: value for key, value in flags.items() if value not in (None, ())}
    return specs.resolve(with_defaults(given), secrets.randbelow(specs.SEEDS))


def _schedule_file(named: str) -> Path:
    from simulation.directed.files import DIRECTED_SCHEDULES

    if SCHEDULES.name_of(named) is None and DIRECTED_SCHEDULES.name_of(named) is not None:
        raise SpecError(f"expected a schedule of faults, found one in steps: {named}; harrow sim --schedule {named}")
    return SCHEDULES.find(named)


def _schedule(spec: Spec, file: Path | None) -> Schedule:
    if file is not None:
        return loads_file(file)
    return drawing.draw(
        spec.seed,
        drawing.swarm(spec.seed, spec.faults) if spec.swarm else spec.faults,
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
    from harness.environments import possible_faults
    from workloads.clients import client_named
    from workloads.clients.base import ClientMissingError
    from workloads.clients.optional_interfaces import admin_library, group_library

    try:
        for library in map(client_named, spec.libraries):
            if spec.workload == "groups":
                group_library(library, spec.assignor)
            if spec.workload == "admin":
                admin_library(library)
    except ClientMissingError as error:
        raise SpecError(f"{error}{f'; {to_install(error.distribution)}' if error.distribution else ''}") from error
    possible_faults.refuse_impossible(spec, [*schedules.kinds_of(schedule), *kinds_in(spec.faults)], system)


def _run(request: RunRequest, store: Path, keep: Keep, *, check: bool) -> ExitStatus:
    from harness.run.context import Plan
    from harness.run.judging import WarmSpark, judge, need_java, write_report
    from harness.store.node_data import prune
    from harness.store.progress import ProgressFile
    from harness.store.run_directories import make_run_directory
    from harness.terminal.console import RunProgress, progress_console, results_console
    from history.reader import read_table
    from reports.text.terminal import summary_lines

    if check:
        need_java()
    spec = request.spec
    directory = make_run_directory(store, request.name, spec.seed)
    schedule_name = request.schedule_name
    command = specs.reproduce(
        spec, str((directory / "schedule.json").absolute()) if schedule_name == "" else schedule_name
    )
    spark = WarmSpark()
    try:
        with (
            ProgressFile(store, "run", directory.name, directory) as file,
            RunProgress(progress_console(), file) as progress,
        ):
            progress.log(f"seed {spec.seed}; history in {directory}; to repeat: {command}")
            plan = Plan(spec, request.schedule, directory, command, request.name)
            heal = command_for(store, "heal")
            _perform(plan, request.system, progress, heal, spark.start if check else lambda: None)
            if not check:
                prune(directory, keep, None, ())
                click.echo(f"history: {directory}; see `harrow check {directory}`")
                return ExitStatus.VALID
            progress.phase("check", "Spark checks the history")
            verdict = judge([directory], spark.session())[0]
            found = read_table(directory, "anomalies").to_pylist()
            prune(directory, keep, verdict, [row for row in found if not row["within_contract"]])
            progress.phase("report")
            page = write_report(directory, partial(progress.log, style="yellow"))
    except (Interrupted, KeyboardInterrupt):
        state = f"interrupted; all nodes are stopped; the history is in {directory}"
        click.echo(f"harrow: {state}; see `harrow check {directory}`", err=True)
        return ExitStatus.UNKNOWN
    except Exception:
        click.echo(f"harrow: the history is in {directory}; see `harrow check {directory}`", err=True)
        raise
    console = results_console()
    console.print(summary_lines(directory), soft_wrap=True)
    if page is not None:
        console.print(f"report: {page}", soft_wrap=True)
    return VERDICTS[verdict]


def _perform(plan: Plan, system: System, progress: RunProgress, heal: str, when_quiescent: Callable[[], None]) -> None:
    """Run the cluster; Ctrl-C and SIGTERM end it in an orderly way."""
    from harness.environments import factory
    from harness.run import runner
    from harness.run.stopping import Stop, on_signals

    needs = frozenset().union(*(kind.needs for kind in schedules.kinds_of(plan.schedule)))
    make = partial(factory.make, plan.spec, needs, plan.directory, system)
    stop = Stop()
    with on_signals(stop, heal):
        runner.run(plan, system, make, progress, stop, when_quiescent)
