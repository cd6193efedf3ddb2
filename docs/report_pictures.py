"""Takes the pictures of reports that the guide shows. Needs Chromium.

python -m docs.report_pictures
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from reports import render
from simulation.directed.files import DIRECTED_SCHEDULES
from simulation.runs.stored import store_schedule_run
from tests.reports import synthetic_run
from tests.reports.browser import Browser, browsing

TO = Path(__file__).parent / "pictures"
SCHEDULE = "unclean-election"


def part_of(browser: Browser, element: str) -> dict[str, float]:
    """Return where an element of the page is."""
    found: dict[str, float] = browser.run(
        f"(({{x, y, width, height}}) => ({{x, y: y + scrollY, width, height}}))"
        f"(document.getElementById('{element}').getBoundingClientRect())"
    )
    return found


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as scratch, browsing(Path(scratch) / "profile") as browser:
        run = synthetic_run.build(Path(scratch) / "nightly", lossy=True, rate=60)
        browser.open(render(run), 1000, 900)
        browser.run("document.querySelector('[data-show=\"incident-1\"]').click()")
        browser.picture(TO / "report-timeline.png", part_of(browser, "workbench"))
        browser.picture(TO / "report-decisive.png", part_of(browser, "decisive-1"))
        played = Path(scratch) / "played"
        played.mkdir()
        store_schedule_run(played, DIRECTED_SCHEDULES.files()[SCHEDULE], flawed=True)
        browser.open(render(played), 1000, 900)
        browser.run("document.getElementById('chart-steps').focus()")
        browser.press("c")
        browser.picture(TO / "report-chart.png", part_of(browser, "chart"))


if __name__ == "__main__":
    main()
