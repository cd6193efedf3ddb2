"""aiokafka, unchanged, in a simulation: repeatable, judged like the model, and gone without a trace at the end."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.commands import cli
from harness.terminal.exits import ExitStatus
from simulation.engine.transport import CLIENTS_FROM
from simulation.invariants.observer import property_observers
from simulation.runs import stored
from simulation.runs.failures import findings
from simulation.runs.stored import differing_event
from simulation.scenario.case import Case, run
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.workload import making
from tests.simulation.small import LIES, QUICK, quick

aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install harrow[clients]")

ROOT = Path(making.__file__).parents[2]

PROGRAM = """
from simulation.scenario.case import run
from tests.simulation.small import quick
for seed in (2, 3):
    outcome = run(quick(seed, client="aiokafka", fault_interval_ms=1_500))
    print(seed, outcome.digest, outcome.events, len(outcome.history.reads))
"""


def judged(case: Case) -> SimulationOutcome:
    return run(case, property_observers(), to_the_end=True, keep_log=True)


def said(outcome: SimulationOutcome) -> list[tuple[int, str]]:
    """What the clients' library logged: when, in virtual milliseconds, and what."""
    return [(at_us // 1_000, text) for at_us, node, text in outcome.log_entries if node >= CLIENTS_FROM]


def test_a_seed_twice_in_one_process_is_the_same_event_by_event() -> None:
    case = quick(3, client="aiokafka")
    assert differing_event(case) is None
    assert run(case).digest != run(quick(3)).digest


def test_a_seed_is_the_same_under_another_hash_seed() -> None:
    hashes = []
    for hash_seed in ("1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=250
        )
        assert done.stderr == ""
        hashes.append(done.stdout)
    assert hashes[0].count("\n") == 2
    assert hashes[0] == hashes[1]


def test_observers_and_the_log_change_nothing() -> None:
    case = quick(2, client="aiokafka")
    plain, watched = run(case), judged(case)
    assert (watched.digest, watched.history) == (plain.digest, plain.history)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"acks": 1},
        {"acks": 0},
        {"idempotence": False},
        {"compression": "snappy"},
        {"compacted": True},
        {"combined": True, "controllers": 3},
    ],
    ids=str,
)
def test_a_correct_build_breaks_nothing(settings: dict[str, object]) -> None:
    for seed in (1, 3, 7):
        outcome = judged(quick(seed, client="aiokafka", **settings))
        assert findings(outcome) == []
        statuses = [row.status for row in outcome.history.operations if row.kind == "send"]
        assert statuses.count("ok") > 10
        written = {row.value for row in outcome.history.sends}
        read = {row.value for row in outcome.history.reads}
        assert read <= written
        assert len(read) > 10


def test_a_flaw_is_found() -> None:
    found = {
        one.property_id for seed in (1, 2, 3, 4) for one in findings(judged(Case(seed, {**LIES, "client": "aiokafka"})))
    }
    assert "P-12" in found


def isolated(**settings: object) -> Case:
    """Both clients and the other nodes are cut off the first broker for six seconds, and off the second later."""
    faults = (
        SimulatedFault(4_000, "isolate", 0, 6_000, 1),
        SimulatedFault(11_000, "isolate", 1, 5_000, 1),
    )
    changed = {**QUICK, "client": "aiokafka", "duration_ms": 20_000, "operations": 60, **settings}
    return Case(5, changed, None, faults)


def test_a_partition_makes_it_retry() -> None:
    outcome = judged(isolated())
    assert findings(outcome) == []
    retries = [at_ms for at_ms, text in said(outcome) if "Unable to request metadata" in text or "retrying" in text]
    assert retries
    assert min(retries) > 4_000
    slow = [
        row
        for row in outcome.history.operations
        if row.kind == "send" and row.status == "ok" and row.completed_ns is not None
        if row.completed_ns - row.invoked_ns > 1_000_000_000
    ]
    assert slow, "a send that was acknowledged only after an attempt had timed out"


def test_without_faults_it_has_nothing_to_say() -> None:
    outcome = judged(quick(1, client="aiokafka", faults=()))
    assert said(outcome) == []
    assert {row.status for row in outcome.history.operations} == {"ok"}


@pytest.mark.parametrize("case", [quick(2, client="aiokafka"), isolated(), Case(1, {**LIES, "client": "aiokafka"})])
def test_nothing_is_left_of_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulation.workload.aio import clients, library

    worlds: list[library.AiokafkaWorld] = []

    class World(library.AiokafkaWorld):
        def __init__(self, cluster: object) -> None:
            super().__init__(cluster)  # type: ignore[arg-type]
            worlds.append(self)

    monkeypatch.setattr(clients, "AiokafkaWorld", World)
    run(case, property_observers())  # also where a violation ends it
    (world,) = worlds
    assert (world.loops, world.network.open_connections, world.complaints) == ([], 0, [])

    import aiokafka.client
    import aiokafka.consumer.fetcher
    import aiokafka.consumer.subscription_state as subscription_state

    assert aiokafka.client.time is time
    assert aiokafka.consumer.fetcher.random is random
    assert "frozenset" not in vars(subscription_state)
    assert logging.getLogger("aiokafka").handlers == []
    assert logging.getLogger("aiokafka").propagate


def test_a_library_that_raises_what_nobody_expects_fails_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("as planned")

    monkeypatch.setattr("aiokafka.AIOKafkaProducer.send", broken)
    found = findings(judged(quick(1, client="aiokafka")))
    assert len(found) == 1
    assert "as planned" in found[0].what


def test_a_stored_run_is_replayed(tmp_path: Path) -> None:
    case = Case(1, {**LIES, "client": "aiokafka"})
    stored.store(tmp_path, case)
    assert stored.replay_run(tmp_path).equal
    (operation, *_) = stored.read_moments(tmp_path)
    assert operation.kind == "Started"


@pytest.mark.parametrize(
    ("client", "line"),
    [
        ("aiokafk", "client: expected one of model, aiokafka, found 'aiokafk'; did you mean aiokafka?"),
        ("confluent", "client: expected one of model, aiokafka, found 'confluent'"),
    ],
)
def test_an_unknown_client_is_answered_in_one_line(client: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", "--seed", "1", "--client", client])
    assert ended.value.code == ExitStatus.USAGE
    printed = capsys.readouterr().err.strip()
    assert line in printed
    assert "\n" not in printed


def test_the_command_says_how_to_repeat_it(capsys: pytest.CaptureFixture[str]) -> None:
    given = [word for key, value in QUICK.items() for word in ("--set", f"{key}={str(value).lower()}")]
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", "--seed", "3", "--client", "aiokafka", *given])
    assert not ended.value.code
    printed = capsys.readouterr().out
    assert "nothing" in printed
    assert "--client aiokafka" in printed


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "find_spec", lambda _: None)
    making.check_client("model")
    with pytest.raises(ValueError, match=r"^client: aiokafka is not installed: pip install 'harrow\[clients\]'$"):
        making.check_client("aiokafka")
