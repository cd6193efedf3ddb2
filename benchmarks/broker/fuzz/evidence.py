"""Keeps the last steps, and saves them when something fails, in a file that the command can replay."""

from __future__ import annotations

import json
import threading
from collections import deque
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker.fuzz.drawing.steps import Step, from_json
from benchmarks.broker.fuzz.watching import Failure

_STEPS_KEPT = 300
_SAVED_MAX = 20


class Saved(NamedTuple):
    """What a saved file says."""

    listener: str
    seed: int
    steps: tuple[Step, ...]


class Evidence:
    """The last steps on each node, and the folder in which they are saved."""

    def __init__(self, folder: Path, listener: str, seed: int) -> None:
        self._folder = folder
        self._listener = listener
        self._seed = seed
        self._lock = threading.Lock()
        self._last: deque[tuple[int, Step]] = deque(maxlen=_STEPS_KEPT)
        self.files: list[Path] = []

    def sent(self, node: int, step: Step) -> None:
        """A step went to a node."""
        with self._lock:
            self._last.append((node, step))

    def save(self, failure: Failure, log: str) -> Path | None:
        """Save what came before a failure: the steps on the failing node, or on all if it was sent none.

        None after many files; one listener of a cluster hardly has so many different bugs.
        """
        with self._lock:
            if len(self.files) >= _SAVED_MAX:
                return None
            own = [step for node, step in self._last if node == failure.node]
            steps = own or [step for _, step in self._last]
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{self._listener}-{self._seed}-{len(self.files) + 1}-{failure.kind}.jsonl"
            self.files.append(path)
        head = {"listener": self._listener, "seed": self._seed, "failure": failure.text, "log": log.splitlines()}
        lines = [head, *(step.as_json() for step in sorted(steps, key=lambda step: step.number))]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path


def load(path: Path) -> Saved:
    """Read a saved file. Raises OSError, and ValueError for a file that is none."""
    try:
        head, *lines = [json.loads(line) for line in path.read_text().splitlines()]
        return Saved(head["listener"], head["seed"], tuple(map(from_json, lines)))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"expected a file that the fuzzer has saved, found {path} ({error})") from None
