"""Asynchronous code on simulated time: its timers, its order, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from simulation.engine.event_loop import BUSY_US, CALLBACKS_MAX, SimulatedEventLoop
from simulation.engine.event_queue import MS, EventQueue


@pytest.fixture
def timeline() -> EventQueue:
    return EventQueue()


@pytest.fixture
def loop(timeline: EventQueue) -> SimulatedEventLoop:
    return SimulatedEventLoop.make(timeline, 1_000)


def run(loop: SimulatedEventLoop, work: Coroutine[object, object, None], until_ms: int = 60_000) -> None:
    task = loop.create_task(work)
    loop.timeline.run_until(until_ms * MS, task.done)
    assert task.done()
    task.result()


def test_sleep_takes_virtual_time_only(loop: SimulatedEventLoop, timeline: EventQueue) -> None:
    seen: list[float] = []

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(5)
            seen.append(loop.time())

    run(loop, work())
    assert seen == [5.0, 10.0, 15.0]


def test_a_timeout_cancels_what_takes_longer(loop: SimulatedEventLoop) -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await asyncio.sleep(60)
        assert loop.time() == 1.5

    run(loop, work())


def test_a_rest_of_time_too_small_for_a_clock_passes_all_the_same(loop: SimulatedEventLoop) -> None:
    async def work() -> None:
        await asyncio.sleep(1e-18)
        assert loop.time() == 1e-6

    run(loop, work())


def test_code_that_waits_for_nothing_takes_time(loop: SimulatedEventLoop, timeline: EventQueue) -> None:
    turns = 0

    async def work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    loop.create_task(work())
    timeline.run_until(10 * BUSY_US)
    assert CALLBACKS_MAX * 9 <= turns <= CALLBACKS_MAX * 11


def test_sets_of_futures_and_tasks_have_the_order_of_their_numbers(loop: SimulatedEventLoop) -> None:
    async def nothing() -> None:
        return

    async def work() -> None:
        tasks = [loop.create_task(nothing()) for _ in range(20)]
        mixed = [*tasks, *(loop.create_future() for _ in range(200))]
        numbers = [hash(one) for one in mixed]
        assert numbers == list(range(numbers[0], numbers[0] + 220))
        assert [hash(one) for one in set(mixed)] == list(set(numbers))
        await asyncio.gather(*tasks)

    run(loop, work())


def test_dismissing_a_loop_cancels_its_tasks_and_those_that_they_start_meanwhile(
    loop: SimulatedEventLoop, timeline: EventQueue
) -> None:
    ended: list[str] = []

    async def late() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append("late")

    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            loop.create_task(late())
            await asyncio.sleep(0)
            ended.append("first")

    loop.create_task(work())
    timeline.run_until(MS)
    loop.dismiss()
    assert (sorted(ended), loop.tasks(), loop.is_closed(), loop.complaints) == (["first", "late"], [], True, [])
    timeline.run_until(1_000_000 * MS)
    assert len(ended) == 2


def test_a_task_that_cannot_be_cancelled_is_reported(loop: SimulatedEventLoop, timeline: EventQueue) -> None:
    async def stubborn() -> None:
        while not loop.is_closed():
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                continue

    loop.create_task(stubborn())
    timeline.run_until(MS)
    loop.dismiss()
    assert [one.split(":")[0] for one in loop.complaints] == ["tasks that cannot be cancelled"]


def test_what_a_callback_raises_is_reported(loop: SimulatedEventLoop, timeline: EventQueue) -> None:
    def wrong() -> None:
        raise ValueError("as planned")

    loop.call_soon(wrong)
    timeline.run_until(MS)
    assert len(loop.complaints) == 1
    assert "as planned" in loop.complaints[0]


def test_threads_and_host_names_do_not_exist(loop: SimulatedEventLoop) -> None:
    async def work() -> None:
        with pytest.raises(NotImplementedError):
            loop.run_in_executor(None, print)
        with pytest.raises(NotImplementedError):
            await loop.getaddrinfo("a", 1)

    run(loop, work())


def test_the_running_loop_is_the_one_before_again(loop: SimulatedEventLoop) -> None:
    async def outside() -> None:
        here = asyncio.get_running_loop()
        with loop.running():
            assert asyncio.get_running_loop() is loop
        assert asyncio.get_running_loop() is here

    asyncio.run(outside())
