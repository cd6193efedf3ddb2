"""Writes the page of the store browser that shows what runs now; the browser asks for it again by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from common.wording import duration
from reports.browser.pages import render

REFRESHED_EVERY_S: Final = 5
"""How often the browser asks again; by a header, as the page has no script."""
OLD_NEWS_S: Final = 15.0
"""The page says how old the latest news is from this age on."""


@dataclass(frozen=True)
class Running:
    """A run, a suite or a sweep that is under way, or was when its process was killed."""

    kind: Literal["run", "suite", "sweep"]
    title: str
    life: Literal["live", "silent", "dead", "forgotten"]
    """silent: of another machine, and not heard of for a while; forgotten: for long."""
    phase: str
    detail: str
    share: float | None
    """Of the phase that is done."""
    left_s: float | None
    """Until the phase ends."""
    since_s: float
    """Since its start."""
    told_s: float
    """Since its latest news."""
    link: str
    """Its page, or empty."""
    cells: Sequence[Running] = ()
    """Of a suite: its runs and sweeps that are under way."""

    @property
    def percent(self) -> int | None:
        """The share that is done, in whole percent."""
        return None if self.share is None else int(self.share * 100)

    @property
    def left(self) -> str:
        """How long it still takes, in words; empty if that is not known."""
        if self.left_s is None:
            return ""
        return "less than a second to go" if self.left_s < 1 else f"about {_length(self.left_s)} to go"

    @property
    def since(self) -> str:
        """How long it has taken, in words."""
        return _length(self.since_s)

    @property
    def news(self) -> str:
        """How old the latest news is, if that is worth a word."""
        return f"no news for {_length(self.told_s)}" if self.told_s >= OLD_NEWS_S else ""


@dataclass(frozen=True)
class RunningNow:
    """All that a store says of what is under way."""

    found: Sequence[Running]
    damaged: int
    """Files that cannot be read."""


def progress_page(now: RunningNow, *, refreshed: bool) -> str:
    """What is under way; `refreshed` says whether the browser will ask again by itself."""
    return render(
        "progress.html",
        live=[each for each in now.found if each.life == "live"],
        gone=[each for each in now.found if each.life in ("silent", "dead")],
        damaged=now.damaged,
        refreshed=refreshed,
        every_s=REFRESHED_EVERY_S,
    )


def _length(seconds: float) -> str:
    if seconds >= 3600:
        hours, rest = divmod(round(seconds / 60), 60)
        return f"{hours:,} h {rest:02d} min"
    return duration(int(round(seconds) * 1e9)) if seconds >= 60 else f"{seconds:.0f} s"
