"""One run, from an empty directory to a history: set up, torment, recover, read everything, tear down.

Whatever happens, faults are undone, processes stopped, and the history is left readable. Once the cluster has been set
up, an error of ours ends the step that it happens in and no other: it is recorded in the table `troubles`, and what was
recorded can be judged. Judging is another matter (`harness.run.judging`): nothing there touches the cluster.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping

from harness.environments.base import Environment, System
from harness.run.phases.final import read_all
from harness.run.phases.main import main_phase
from harness.run.phases.recovery import recover
from harness.run.phases.set_up import set_up, worker_count
from harness.run.phases.stage import Plan, RunOutcome, Stage
from harness.run.sampler import Sampler
from harness.run.stopping import Stop
from harness.shipped import SYSTEMS
from harness.spec.spec import OWN_COPY, OWN_SYSTEM, to_json
from harness.store.journal import Journal
from harness.terminal.errors import describe
from harness.terminal.progress import Progress
from history import HistoryWriter, RunClock
from nemesis import schedule

UNAVAILABLE_AFTER_MS = 30_000
"""A cluster that is not whole again this long after its last fault was healed is `unavailable`."""


def run(
    plan: Plan,
    system: System,
    make_environment: Callable[[Journal], Environment],
    progress: Progress,
    stop: Stop,
    when_at_rest: Callable[[], None] = lambda: None,
) -> RunOutcome:
    """Perform a plan. Raises `Interrupted`, `HistoryError`, and what keeps the cluster from being set up.

    `when_at_rest` is called once the cluster has recovered and the writes have ended: work that is done from then on
    disturbs nothing that is judged.
    """
    clock = RunClock.starting_now()
    journal = Journal(plan.directory)
    environment = make_environment(journal)
    text = to_json(plan.spec, environment.mechanisms, plan.reproduce, system.traits.versions)
    (plan.directory / "spec.json").write_text(text)
    (plan.directory / "schedule.json").write_text(schedule.dumps(plan.schedule))
    if plan.spec.system != OWN_SYSTEM:
        shutil.copyfile(SYSTEMS.find(plan.spec.system), plan.directory / OWN_COPY)
    with HistoryWriter(plan.directory / "history", plan.run_id, "harness") as history:
        history.add("runs", _row(plan, system, text))
        history.flush()
        stage = Stage(plan, system, environment, journal, history, clock, progress, stop)
        try:
            _perform(stage, when_at_rest)
        finally:
            with stage.phase("tear-down"):
                _tear_down(stage)
    return stage.outcome


def _perform(stage: Stage, when_at_rest: Callable[[], None]) -> None:
    environment, system, spec = stage.environment, stage.system, stage.plan.spec
    told = _count(spec.brokers, "broker")
    if spec.combined:
        told += (
            f", {spec.controllers} of which {'is a controller' if spec.controllers == 1 else 'are controllers'}, too"
        )
    elif spec.controllers:
        told += f" and {_count(spec.controllers, 'controller')}"
    if system.name != OWN_SYSTEM:
        told += f" of {system.name}"
    with stage.phase("set-up", told):
        set_up(stage)
    sampler = Sampler(stage.system, environment.plans, stage.clock.now, stage.adder("cluster"), stage.adder("quorum"))
    sampler.start()
    try:
        to_come = f"{spec.duration:g} s, {len(stage.plan.schedule.entries)} faults to come"
        with stage.phase("main", to_come), stage.going_on():
            main_phase(stage)
        with stage.phase("recovery"):
            ends = recover(stage)
        when_at_rest()
        with stage.phase("final", "read everything from the start"):
            read_all(stage, ends)
    finally:
        sampler.stop()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _tear_down(stage: Stage) -> None:
    stage.stop_workers()
    try:
        stage.environment.tear_down()
    except Exception as error:
        stage.trouble(f"{describe(error)}; `harrow heal` undoes what is left", "harness")
    else:
        stage.journal.finish()


def _row(plan: Plan, system: System, text: str) -> Mapping[str, object]:
    spec = plan.spec
    return {
        "name": plan.name or spec.name or plan.run_id,
        "seed": spec.seed,
        "system": system.name,
        "volatile": system.traits.volatile,
        "environment": spec.environment,
        "started_unix_ms": time.time_ns() // 1_000_000,
        "brokers": spec.brokers,
        "controllers": spec.controllers,
        "replication_factor": spec.replication_factor,
        "min_insync_replicas": spec.min_insync_replicas,
        "acks": spec.acks_number,
        "idempotence": spec.idempotence,
        "unclean_election": spec.unclean_election,
        "generation": spec.generation,
        "flaws": list(spec.flaws),
        "workers": worker_count(spec.concurrency),
        "faults_wanted": bool(plan.schedule.entries),
        "unavailable_after_ms": UNAVAILABLE_AFTER_MS * spec.pace,
        "spec": text,
    }
