"""Performs one run, from an empty directory to a history: set-up, main phase, recovery, final reads, tear-down.

In every case faults are undone, processes stopped, and the history is left readable. After set-up an error of the
harness ends only the step in which it happens: it is recorded in the table `troubles`, and the history so far can be
checked. Checking is separate (`harness.run.judging`) and does not touch the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.environments.base import Environment, System
from harness.run.context import Plan, RunContext, RunOutcome
from harness.run.phases import main_phase, read_all, recover, set_up, worker_count
from harness.run.sampler import Sampler
from harness.run.stopping import Stop
from harness.shipped import SYSTEMS
from harness.spec.designs import ON_ZOOKEEPER
from harness.spec.spec import NEXT_COPY, OWN_COPY, OWN_SYSTEM, to_json
from harness.store.journal import Journal
from harness.systems.inheritance import in_one_file
from harness.terminal.console import RunProgress
from harness.terminal.exits import describe
from history.clock import RunClock
from history.compaction import compact
from history.writer import HistoryWriter
from nemesis import schedule

UNAVAILABLE_AFTER_MS = 30_000
"""A cluster that has not recovered this long after its last fault was healed is `unavailable`."""

PARTS_MANY = 5_000
"""Uniting more part files than this is announced, because it takes seconds."""


def run(
    plan: Plan,
    system: System,
    make_environment: Callable[[Journal], Environment],
    progress: RunProgress,
    stop: Stop,
    when_quiescent: Callable[[], None] = lambda: None,
) -> RunOutcome:
    """Perform a plan. Raises `Interrupted`, `HistoryError`, and any error that prevents the set-up of the cluster.

    `when_quiescent` is called once the cluster has recovered and the writes have ended: work from then on does not
    disturb anything that is checked.
    """
    clock = RunClock.starting_now()
    journal = Journal(plan.directory)
    environment = make_environment(journal)
    traits = system.traits
    text = to_json(plan.spec, environment.mechanisms, plan.reproduce, traits.versions, traits.flaw_summaries)
    (plan.directory / "spec.json").write_text(text)
    (plan.directory / "schedule.json").write_text(schedule.dumps(plan.schedule))
    if plan.spec.system != OWN_SYSTEM:
        (plan.directory / OWN_COPY).write_text(in_one_file(SYSTEMS.find(plan.spec.system)))
        if plan.spec.upgrade_to:
            (plan.directory / NEXT_COPY).write_text(in_one_file(SYSTEMS.find(plan.spec.upgrade_to)))
    with HistoryWriter(plan.directory / "history", plan.run_id, "harness") as history:
        history.add("runs", _row(plan, system, text, clock))
        history.flush()
        context = RunContext(plan, system, environment, journal, history, clock, progress, stop)
        try:
            _perform(context, when_quiescent)
        finally:
            with context.phase("tear-down"):
                _tear_down(context)
    parts = sum(1 for _ in plan.directory.glob("history/*/part-*.parquet"))
    if parts > PARTS_MANY:
        progress.log(f"uniting the {parts:,} part files of the history")
    compact(plan.directory)
    return context.outcome


def _perform(context: RunContext, when_quiescent: Callable[[], None]) -> None:
    environment, system, spec = context.environment, context.system, context.plan.spec
    nodes = _count(spec.brokers, "broker")
    if spec.combined:
        nodes += (
            f", {spec.controllers} of which {'is a controller' if spec.controllers == 1 else 'are controllers'}, too"
        )
    elif spec.generation in ON_ZOOKEEPER:
        nodes += f" and {_count(spec.controllers, 'member')} of an ensemble"
    elif spec.controllers:
        nodes += f" and {_count(spec.controllers, 'controller')}"
    if system.name != OWN_SYSTEM:
        nodes += f" of {system.name}"
    with context.phase("set-up", nodes):
        set_up(context)
    sampler = Sampler(
        context.system,
        environment.plans,
        context.clock.now,
        context.recorder("cluster"),
        context.recorder("quorum"),
        context.recorder("versions") if spec.upgrade_to else None,
    )
    sampler.start()
    try:
        summary = f"{spec.duration:g} s, {_count(len(context.plan.schedule.entries), 'fault')}"
        with context.phase("main", summary), context.recording_errors():
            main_phase(context)
        with context.phase("recovery"):
            ends = recover(context)
        when_quiescent()
        with context.phase("final", "read all partitions from the start"):
            read_all(context, ends)
    finally:
        sampler.stop()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _tear_down(context: RunContext) -> None:
    context.stop_workers()
    try:
        context.environment.tear_down()
    except Exception as error:
        context.trouble(f"{describe(error)}; `harrow heal` removes what is left", "harness")
    else:
        context.journal.finish()


def _row(plan: Plan, system: System, text: str, clock: RunClock) -> Mapping[str, object]:
    spec = plan.spec
    return {
        "name": plan.name or spec.name or plan.run_id,
        "seed": spec.seed,
        "system": system.name,
        "volatile": system.traits.volatile,
        "environment": spec.environment,
        "started_unix_ms": clock.origin_unix_ms(),
        "brokers": spec.brokers,
        "controllers": spec.controllers,
        "replication_factor": spec.replication_factor,
        "min_insync_replicas": spec.min_insync_replicas,
        "acks": spec.acks_number,
        "idempotence": spec.idempotence,
        "unclean_election": spec.unclean_election,
        "generation": spec.generation,
        "flaws": list(spec.flaws),
        "workers": worker_count(spec),
        "faults_wanted": bool(plan.schedule.entries),
        "unavailable_after_ms": UNAVAILABLE_AFTER_MS * spec.pace,
        "spec": text,
    }
