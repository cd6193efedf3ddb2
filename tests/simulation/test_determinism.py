"""The same seed is the same simulation: in one process, in others, under another hash seed, in another Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import harness
from broker.core.broker_node.node import BrokerNode
from broker.core.ports.events import Effect, Event, LogEntry, TimerFired
from simulation.invariants.observer import property_observers
from simulation.runs.stored import EventStream, LoggedEvent, differing_event, first_difference
from simulation.scenario.case import Case, run
from tests.simulation.small import quick

ROOT = Path(harness.__file__).parent.parent

PROGRAM = """
import sys
from simulation.scenario.case import Case, run
for seed in (1, 2, 3):
    outcome = run(Case(seed, {"duration_ms": 15_000, "operations": 60}))
    print(seed, outcome.digest, outcome.events)
"""


def hashes_of(python: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(ROOT), *libraries()])}
    done = subprocess.run(
        [python, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


def libraries() -> list[str]:
    """Where the libraries of this Python are, for another one."""
    return [path for path in sys.path if path.endswith("site-packages")]


def other_pythons() -> list[str]:
    """Pythons on this machine that are not the one that runs this, and can load what the broker needs."""
    here = Path(sys.executable).resolve()
    found = {shutil.which(name) for name in ("python3.11", "python3.12", "python3.13", "python3.14", "python3")}
    found |= {str(path) for path in Path("/usr/bin").glob("python3.[0-9][0-9]")}
    others = {str(Path(path).resolve()) for path in found if path is not None} - {str(here)}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(libraries())}
    loads = [sys.executable, "-c", "import sys, crc32c; sys.exit(sys.version_info < (3, 11))"][1:]
    return sorted(
        path
        for path in others
        if subprocess.run([path, *loads], env=environment, capture_output=True, check=False).returncode == 0
    )


def test_a_seed_twice_in_one_process_is_the_same_event_by_event() -> None:
    assert differing_event(quick(7)) is None
    assert run(quick(7)).digest == run(quick(7)).digest
    assert run(quick(7)).digest != run(quick(8)).digest


def test_observers_and_recorders_change_nothing() -> None:
    plain = run(quick(7))
    watched = run(quick(7), property_observers(), (EventStream(),), to_the_end=True, keep_log=True)
    assert (watched.digest, watched.events, watched.history) == (plain.digest, plain.events, plain.history)


def test_a_seed_is_the_same_under_another_hash_seed() -> None:
    assert hashes_of(sys.executable, "1") == hashes_of(sys.executable, "2")


def test_a_seed_is_the_same_in_another_python() -> None:
    others = other_pythons()
    if not others:
        pytest.skip("needs a second Python that can load crc32c; this machine has none")
    expected = hashes_of(sys.executable, "0")
    assert {python: hashes_of(python, "0") for python in others} == dict.fromkeys(others, expected)


def test_draws_that_change_no_event_change_the_hash_all_the_same() -> None:
    one, other = (run(Case(None, {**quick(1).overrides, "faults": ()}, {"disk": values})) for values in ((), (1,)))
    assert one.digest == other.digest, "a draw that is never made is none"


def test_a_clock_in_a_rule_is_caught_at_its_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plant: from its tenth second on, a broker's timers depend on the host's clock."""
    honest = BrokerNode.handle
    planted: list[tuple[int, Event]] = []

    def handle(self: BrokerNode, now_ms: int, event: Event) -> list[Effect]:
        effects = honest(self, now_ms, event)
        if now_ms >= 10_000 and isinstance(event, TimerFired):
            planted.append((now_ms, event))
            effects.append(LogEntry("info", f"it is {time.perf_counter_ns()}"))
        return effects

    monkeypatch.setattr(BrokerNode, "handle", handle)
    difference = differing_event(quick(7))
    assert difference is not None
    assert difference.one is not None
    at_ms, event = planted[0]
    assert difference.one.at_us // 1_000 == at_ms
    assert difference.one.kind == "TimerFired"
    assert repr(event).endswith(difference.one.detail)
    assert "with different effects" in str(difference)


def test_iterating_a_set_is_caught_between_processes_at_its_first_event() -> None:
    plant = """
from broker.core.broker_node.node import BrokerNode
from broker.core.ports.events import LogEntry, TimerFired
from simulation.scenario.case import run
from simulation.runs.stored import EventStream
from tests.simulation.small import quick
honest = BrokerNode.handle
def handle(self, now_ms, event):
    effects = honest(self, now_ms, event)
    if now_ms >= 10_000 and isinstance(event, TimerFired):
        effects.append(LogEntry("info", " ".join({f"node {number}" for number in range(20)})))
    return effects
BrokerNode.handle = handle
stream = EventStream()
run(quick(7), (), (stream,))
for moment in stream.moments:
    print(*moment, sep="\\t")
"""
    streams = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", plant], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        streams.append([moment_of(line) for line in done.stdout.splitlines()])
    difference = first_difference(*streams)
    assert difference is not None
    assert difference.one is not None
    assert difference.one.kind == "TimerFired"
    assert 10_000_000 <= difference.one.at_us < 11_000_000


def moment_of(line: str) -> LoggedEvent:
    at_us, node_id, kind, detail, content = line.split("\t")
    return LoggedEvent(int(at_us), int(node_id), kind, detail, int(content))


def test_a_stream_that_ends_early_differs_at_its_end() -> None:
    moments = [LoggedEvent(number, 1, "TimerFired", "(key)", number) for number in range(3)]
    difference = first_difference(moments, moments[:2])
    assert difference is not None
    assert (difference.number, difference.other) == (2, None)
    assert str(difference).endswith("and then the end")
    assert first_difference(moments, moments) is None
