"""What a node has done so far, counted where it happens; `broker.shell.observability.metrics` tells it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from broker.core.messages import AnyResponse
from broker.core.messages.errors import ErrorCode

PEERS = "PEERS"
"""Stands for a listener where bytes are counted on connections that the node has made itself."""


@dataclass(slots=True)
class Traffic:
    """Counters that only grow, by the name of the API or of the listener; connections come and go."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)  # API, error
    connections: Counter[str] = field(default_factory=Counter)
    bytes_in: Counter[str] = field(default_factory=Counter)
    bytes_out: Counter[str] = field(default_factory=Counter)

    def answered(self, api: str, response: AnyResponse | None) -> None:
        """Count a request by its API and the first error in its answer."""
        self.requests[api, "NONE" if response is None else error_name(response)] += 1


def error_name(response: AnyResponse) -> str:
    """The first error that a response tells, of the whole or of one of its parts; NONE if there is none."""
    code = _first_error(response)
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _first_error(message: object) -> int:
    code = int(getattr(message, "error_code", 0))
    if code or not isinstance(message, tuple):
        return code
    for inner in message:
        if isinstance(inner, tuple):
            for part in inner:
                code = getattr(part, "error_code", 0)
                if code:
                    return code
    return 0
