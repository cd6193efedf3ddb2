"""One session of the fuzzer: sends steps to a cluster for a time, watches it, and sums up."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kafka.errors import KafkaError

from benchmarks.broker.fuzz import spared
from benchmarks.broker.fuzz.drawing import steps
from benchmarks.broker.fuzz.drawing.steps import Step
from benchmarks.broker.fuzz.drawing.values import filled_in
from benchmarks.broker.fuzz.evidence import Evidence
from benchmarks.broker.fuzz.records import Kept, Writing
from benchmarks.broker.fuzz.sending import Held, send
from benchmarks.broker.fuzz.target import Target
from benchmarks.broker.fuzz.watching import Failure, Health, Watching

SENDERS = 4
SPARED = "left out"
_PROGRESS_S = 10.0
_LOOK_S = 1.0
_AFTER_S = 3.0
"""How long the nodes are watched after the last frame."""


class Plan(NamedTuple):
    """What a session is to do."""

    listener: str
    duration_s: float
    seed: int
    folder: Path
    module: str = "broker.shell"
    replayed: tuple[Step, ...] | None = None
    """Steps to send instead of drawn ones, once, in their order."""


class Outcome(NamedTuple):
    """What came of a session."""

    plan: Plan
    took_s: float
    results: Counter[tuple[str, str]]
    """(Kind of frame, what became of it) → count."""

    spared: Counter[str]
    health: dict[int, Health]
    kept: Kept | None
    """None: the records could not be read."""

    failures: tuple[Failure, ...]
    files: tuple[Path, ...]

    @property
    def failed(self) -> bool:
        """Whether anything happened that must not."""
        return bool(self.failures)


def run(plan: Plan) -> Outcome:
    """Start a cluster, fuzz it, stop it. An interrupt ends the fuzzing early, and the outcome is what was seen."""
    sys.setswitchinterval(0.001)  # a probe should not wait for the drawing of frames
    target = Target(plan.listener, plan.module)
    try:
        return _Session(plan, target).run()
    finally:
        target.close()


class _Session:
    def __init__(self, plan: Plan, target: Target) -> None:
        self._plan = plan
        self._target = target
        self._evidence = Evidence(plan.folder, plan.listener, plan.seed)
        self._held = Held()
        self._lock = threading.Lock()
        self._results: Counter[tuple[str, str]] = Counter()
        self._spared: Counter[str] = Counter()
        self._failures: list[Failure] = []
        self._steps = self._drawn() if plan.replayed is None else iter(plan.replayed)
        self._stop = threading.Event()

    def run(self) -> Outcome:
        began = time.monotonic()
        writing = Writing(self._target.cluster.bootstrap)
        watching = Watching(self._target, self._failed)
        senders = 1 if self._plan.replayed is not None else SENDERS
        threads = [threading.Thread(target=self._send_steps, daemon=True) for _ in range(senders)]
        for thread in threads:
            thread.start()
        with suppress(KeyboardInterrupt):
            self._wait(threads, began, writing, watching)
        self._stop.set()
        for thread in threads:
            thread.join()
        self._held.close()
        writing.stop()
        watching.stop()
        kept = None
        try:
            kept = writing.read_all()
            if kept.lost:
                self._failed(Failure("lost", 0, f"{len(kept.lost)} acknowledged records are lost: {kept.lost[:5]} …"))
            if kept.doubled:
                self._failed(Failure("doubled", 0, f"{kept.doubled} records of an idempotent producer are there twice"))
        except KafkaError as error:
            self._failed(Failure("unreadable", 0, f"the records could not be read: {error}"))
        return Outcome(
            self._plan,
            time.monotonic() - began,
            self._results,
            self._spared,
            watching.health,
            kept,
            tuple(self._failures),
            tuple(self._evidence.files),
        )

    def _wait(self, threads: list[threading.Thread], began: float, writing: Writing, watching: Watching) -> None:
        """Until the time is over, or all saved steps are sent; then a little longer, for what comes late."""
        told = began
        end = began + self._plan.duration_s
        while time.monotonic() < end and any(thread.is_alive() for thread in threads):
            time.sleep(min(_LOOK_S, max(0.0, end - time.monotonic())))
            self._held.tick()
            with suppress(OSError, EOFError, KafkaError, ValueError):
                self._target.look()
            if time.monotonic() - told >= _PROGRESS_S:
                told = time.monotonic()
                slowest = max(health.slowest_s for health in watching.health.values())
                print(
                    f"{told - began:6.0f} s  {sum(self._results.values()):8,} frames, {writing.acknowledged:,} records "
                    f"acknowledged, slowest answer {slowest:.2f} s, {len(self._failures)} failures",
                    flush=True,
                )
        self._stop.set()
        time.sleep(_AFTER_S)

    def _drawn(self) -> Iterator[Step]:
        for number in itertools.count():
            yield steps.drawn(self._plan.seed, self._plan.listener, number)

    def _send_steps(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                step = next(self._steps, None)
            if step is None:
                return
            self._send(step)

    def _send(self, step: Step) -> None:
        marks, known = self._target.seen()
        frames = tuple(filled_in(frame, marks) for frame in step.frames)
        why = next((found for frame in frames if (found := spared.reason(frame, known))), None)
        if why is not None:
            with self._lock:
                self._spared[why] += 1
                self._results[step.kind, SPARED] += len(frames)
            return
        node = self._target.node_of(step.target)
        self._evidence.sent(node.number, step)
        results = send(self._target.address_of(node, self._plan.listener), step.behaviour, frames, self._held)
        with self._lock:
            self._results.update((step.kind, result) for result in results)

    def _failed(self, failure: Failure) -> None:
        with self._lock:
            self._failures.append(failure)
        node = self._target.cluster.nodes.get(failure.node)
        path = self._evidence.save(failure, "" if node is None else node.log_tail(60))
        print(f"FAILURE: {failure.text}{'' if path is None else f'; saved as {path}'}", flush=True)
