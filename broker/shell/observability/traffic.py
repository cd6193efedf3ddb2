"""Counts a node's requests, connections and bytes; `broker.shell.observability.metrics` renders the counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from broker.core.messages import AnyResponse
from broker.core.messages.errors import ErrorCode

PEERS = "PEERS"
"""Label in place of a listener for bytes on connections that the node opened itself."""


@dataclass(slots=True)
class Traffic:
    """Monotonic counters by API or listener name."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)  # API, error
    connections: Counter[str] = field(default_factory=Counter)
    bytes_in: Counter[str] = field(default_factory=Counter)
    bytes_out: Counter[str] = field(default_factory=Counter)
    incidents: int = 0
    """Requests that were refused because serving them raised an error."""

    def answered(self, api: str, response: AnyResponse | None) -> None:
        """Count a request by its API and the first error in its answer."""
        self.requests[api, "NONE" if response is None else error_name(response)] += 1


def error_name(response: AnyResponse) -> str:
    """The first error in a response, of the whole or of one of its parts; NONE if there is none."""
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
