"""The RPC protocol between harness and agent: JSON lines, with answers in any order.

A request is `{"id": 7, "do": …}`, its answer `{"id": 7, "result": …}` or `{"id": 7, "error": "…"}`. The agent may also
send notifications (`{"push": …}`). Requests without an id are not answered.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any

SILENCE_S = 60.0
"""After this time without a message an agent takes the harness for dead."""

Request = Mapping[str, Any]


class RpcServer:
    """The agent's end."""

    def __init__(self, source: IO[bytes], target: int) -> None:
        """Requests come from `source`; answers go to the descriptor `target`."""
        self._source = source
        self._target = target
        self._buffer = b""
        self._is_over = False
        self._lock = threading.Lock()

    def first(self) -> dict[str, Any] | None:
        """Receive the config; None when the harness is gone."""
        line = self._line()
        return json.loads(line) if line else None

    def accept(self, result: object) -> None:
        """Report that the config has been applied."""
        self._write({"result": result})

    def refuse(self, error: str) -> None:
        """Report why it could not be applied."""
        self._write({"error": " ".join(error.split())})

    def push(self, what: object) -> None:
        """Send a notification. Does nothing when the harness is gone."""
        self._write({"push": what})

    def serve(
        self,
        answer: Callable[[Request], object],
        troubles: tuple[type[Exception], ...],
        in_turn: Callable[[Request], bool],
    ) -> None:
        """Answer requests until the harness is gone, each in a thread, except those to be handled in turn.

        Nothing is written to the target after this has returned: it may be closed, and be another file.
        """

        def handle(number: int | None, request: Request) -> None:
            try:
                reply: dict[str, object] = {"result": answer(request)}
            except troubles as error:
                reply = {"error": str(error)}
            if number is not None:
                self._write({"id": number, **reply})

        while line := self._line():
            request = json.loads(line)
            number = request.pop("id", None)
            if request.get("do") == "stay":
                continue
            if in_turn(request):
                handle(number, request)
            else:
                threading.Thread(target=handle, args=(number, request), daemon=True).start()
        with self._lock:
            self._is_over = True

    def _line(self) -> bytes:
        """Receive the next line; empty when the harness is gone."""
        descriptor = self._source.fileno()
        while b"\n" not in self._buffer:
            if not select.select([descriptor], [], [], SILENCE_S)[0]:
                # If the harness is alive after all, it reads this line.
                print(f"heard nothing of the harness for {SILENCE_S:g} s", file=sys.stderr, flush=True)
                return b""
            data = os.read(descriptor, 1 << 16)
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _write(self, what: Mapping[str, object]) -> None:
        data = json.dumps(what).encode() + b"\n"
        with self._lock:
            if self._is_over:
                return
            try:
                while data:
                    data = data[os.write(self._target, data) :]
            except BrokenPipeError:  # the harness is gone; the input has ended or is about to
                return
