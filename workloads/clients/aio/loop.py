"""Runs aiokafka on an event loop in a thread of its own, for callers on other threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from workloads.clients.aio_calls import client_errors
from workloads.clients.base import ClientError

MARGIN_S: Final = 2.0
"""How much longer than its own timeouts a call of aiokafka may take before it counts as hung."""

T = TypeVar("T")


class Loop:
    """An event loop on a thread, for callers on other threads."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run to completion. Raises `ClientError` for what aiokafka raises, and after the timeout."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        with client_errors():
            try:
                return future.result(timeout_s)
            finally:
                future.cancel()

    def close(self) -> None:
        """Cancel what still runs on the loop, and stop it."""
        with ignored_client_errors():
            self.call(cancel_others(), MARGIN_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


async def cancel_others() -> None:
    """Cancel all other tasks of the loop, and wait until they have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)


@contextmanager
def ignored_client_errors() -> Iterator[None]:
    """Ignore errors of a client that is dropped in any case."""
    try:
        yield
    except ClientError:
        return  # it is dropped in any case
