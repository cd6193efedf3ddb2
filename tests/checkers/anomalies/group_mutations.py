"""Random correct histories of a consumer group, and what can be broken in one."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.checkers.histories import FINAL_MS, History

LATE_MS = 60_000
MEMBERS = (501, 502, 503)


class Group:
    """Members take turns at a partition, commit and ask; every operation takes effect at one moment within its span."""

    def __init__(self, name: str, seed: int) -> None:
        self.choices = random.Random(seed)
        self.history = History(name)
        self.offset: int | None = None
        self.highest = 0
        self.generation = 0
        self._now = 10
        for _ in range(self.choices.randint(2, 6)):
            self._reign()
        self.offset = self.highest  # what is committed last was never tried before: no late commit can be of it
        self.commit(status="ok")
        self.history.committed(self.offset, (FINAL_MS + 1, FINAL_MS + 2), phase="final")
        self.history.final([])

    def span(self) -> tuple[int, int]:
        """A span around the next moment. It may overlap others, but never touches the moment of another."""
        self._now += 20
        return self._now - self.choices.randint(1, 15), self._now + self.choices.randint(1, 15)

    def commit(self, status: str) -> None:
        """A commit above all before it, which takes effect unless it fails."""
        begins, ends = self.span()
        offset = (self.offset or 0) + self.choices.randint(1, 50)
        self.highest = max(self.highest, offset)
        completed = ends if status == "ok" else None
        self.history.commit(
            offset, (begins, completed), status=status, generation=self.generation, process=self.choices.choice(MEMBERS)
        )
        if status == "ok" or (status == "info" and self.choices.random() < 0.5):
            self.offset = offset

    def _reign(self) -> None:
        self.generation += 1
        since = self._now + 1
        for _ in range(self.choices.randint(1, 8)):
            if self.choices.random() < 0.5:
                self.commit(self.choices.choices(["ok", "info", "fail"], [6, 1, 1])[0])
            else:
                self.history.committed(self.offset, self.span(), process=self.choices.choice(MEMBERS))
        self._now += 20
        self.history.owned(self.choices.choice(MEMBERS), self.generation, (since, self._now))


def lose(group: Group) -> str:
    """An answer is older than the last acknowledged commit."""
    group.history.commit(10**6, (LATE_MS, LATE_MS + 1), generation=group.generation)
    group.history.committed(group.offset, (LATE_MS + 2, LATE_MS + 3))
    _settle(group, 10**6)
    return "lost-commit"


def lose_all(group: Group) -> str:
    """An answer says that nothing was ever committed."""
    group.history.committed(None, (LATE_MS, LATE_MS + 1))
    return "lost-commit"


def go_back(group: Group) -> str:
    """An answer is below the one before, which was never acknowledged."""
    group.history.commit(10**6, (LATE_MS, None), status="info", generation=group.generation)
    group.history.committed(10**6, (LATE_MS + 1, LATE_MS + 2))
    return "committed-offset-regression"


def listen_to_the_past(group: Group) -> str:
    """A commit of a generation that is over is acknowledged."""
    group.history.commit(10**6, (LATE_MS, LATE_MS + 1), generation=group.generation + 1)
    group.history.commit(10**6 - 1, (LATE_MS + 2, LATE_MS + 3), generation=group.generation)
    _settle(group, 10**6 - 1)
    return "committed-offset-regression"


def share(group: Group) -> str:
    """Another member owns the partition during a tenure."""
    tenure = group.choices.choice(group.history.tables["ownerships"])
    other = {**tenure, "process": 599, "member": "member-599", "since_ns": tenure["since_ns"] + 1}
    del other["run_id"]
    group.history.row("ownerships", **other)
    return "double-ownership"


def _settle(group: Group, offset: int) -> None:
    """Have the last answer say what is committed now."""
    last = next(row for row in group.history.tables["operations"] if row["phase"] == "final")
    next(row for row in group.history.tables["commits"] if row["op"] == last["op"])["offset"] = offset


GROUP_MUTATIONS: tuple[Callable[[Group], str], ...] = (lose, lose_all, go_back, listen_to_the_past, share)
