"""Runs fsync on separate threads, so that a slow disk does not block the node.

Flushes of one token run one after the other, in the order of their requests; those of
different tokens run in parallel. The threads are daemons: a disk that hangs must not keep the process
from ending.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from queue import SimpleQueue

from broker.core.ports.events import Flush
from broker.core.ports.files import StorageError

THREADS = 4

Done = Callable[[Flush, str | None], None]
Failed = Callable[[BaseException], None]


class Flusher:
    """Executes `Flush` effects; `done` and `failed` are called on one of its threads."""

    def __init__(self, sync: Callable[[str], None], done: Done, failed: Failed) -> None:
        self._sync = sync
        self._done = done
        self._failed = failed
        self._work: SimpleQueue[Flush | None] = SimpleQueue()
        self._waiting: dict[Hashable, deque[Flush]] = {}
        """Tokens that are being flushed, with the requests that arrived meanwhile."""

        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, name=f"flush-{number}", daemon=True) for number in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, flush: Flush) -> None:
        """Flush soon, after earlier flushes of the same token."""
        with self._lock:
            if flush.token in self._waiting:
                self._waiting[flush.token].append(flush)
                return
            self._waiting[flush.token] = deque()
        self._work.put(flush)

    def close(self) -> None:
        """Let the threads end once the running flushes are done; queued ones are dropped."""
        with self._lock:
            self._waiting = {}
        for _ in self._threads:
            self._work.put(None)

    def _run(self) -> None:
        while (flush := self._work.get()) is not None:
            try:
                error = self._flush(flush)
            except Exception as surprise:
                self._failed(surprise)
                return
            self._done(flush, error)
            self._next(flush.token)

    def _flush(self, flush: Flush) -> str | None:
        try:
            for name in flush.files:
                self._sync(name)
        except StorageError as error:
            return str(error)
        return None

    def _next(self, token: Hashable) -> None:
        with self._lock:
            waiting = self._waiting.get(token)
            if waiting is None:
                return
            if not waiting:
                del self._waiting[token]
                return
            flush = waiting.popleft()
        self._work.put(flush)
