"""Runs cells of a suite side by side: only sweeps of the simulator, which share neither ports nor clocks with others.

Runs of real clusters would: two of them, or one beside a sweep that takes the processors, disturb each other's
elections and timeouts. They run one at a time, and alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from harness.run.stopping import Stop
from harness.suites.cells import Cell
from harness.suites.suite_state import CellResult

Outcome = CellResult | None
"""None if the cell was interrupted."""


def groups(cells: Sequence[Cell], jobs: int) -> Iterator[Sequence[Cell]]:
    """Cells in their order, by what runs at the same time: neighbours that are sweeps together, all others alone."""
    together: list[Cell] = []
    for cell in cells:
        if cell.is_simulated and jobs > 1:
            together.append(cell)
            continue
        if together:
            yield together
            together = []
        yield [cell]
    if together:
        yield together


def run_side_by_side(
    cells: Sequence[Cell],
    jobs: int,
    work: Callable[[Cell], Outcome],
    began: Callable[[Sequence[Cell]], object],
    ended: Callable[[Cell, Outcome], object],
    stop: Stop,
) -> None:
    """Do the `work` of up to `jobs` cells at a time, each in a thread; begin none once `stop` is requested.

    `began` and `ended` are called in the calling thread, so that they may write and print: `began` with the cells that
    are under way whenever these change, `ended` with each result, in the order in which they come. An error of either,
    or of the work, ends the other cells before it is raised.
    """
    waiting = deque(cells)
    running: dict[Future[Outcome], Cell] = {}
    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="cell") as pool:
        try:
            while True:
                while waiting and len(running) < jobs and not stop.requested:
                    cell = waiting.popleft()
                    running[pool.submit(work, cell)] = cell
                if not running:
                    return
                began(list(running.values()))
                for future in sorted(
                    wait(running, return_when=FIRST_COMPLETED)[0], key=lambda one: running[one].number
                ):
                    ended(running.pop(future), future.result())
        except BaseException:
            stop.request()
            raise
