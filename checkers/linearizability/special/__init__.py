"""Decides special histories in O(n log n): the problem is hard only if it is not known which write a read saw.

| objects | module | when |
|---|---|---|
| registers | `unique_values` | every value is written once, nothing is compared |
| queues | `unique_values` | every value is enqueued once, and every dequeue that returned has a known value |
| logs | `instants` | every completed append returns its offset |
| sets | `instants` | nothing is removed |

Each returns None if it does not apply: then the search decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from checkers.linearizability.models import Model, State
from checkers.linearizability.operations import Operation
from checkers.linearizability.special.contradiction import Contradiction, Linearizable
from checkers.linearizability.special.instants import decide_log, decide_set
from checkers.linearizability.special.unique_values import decide_queue, decide_register

_Decide = Callable[[Sequence[Operation], State], Contradiction | Linearizable | None]

_DECIDERS: Final[Mapping[str, _Decide]] = {
    "register": decide_register,
    "cas-register": decide_register,
    "kv": decide_register,
    "append-only-log": decide_log,
    "set": decide_set,
    "fifo-queue": decide_queue,
}


def decide_quickly(
    model: Model, operations: Sequence[Operation], initial: State
) -> Contradiction | Linearizable | None:
    """Decide one key's prepared operations, or return None where no special case applies."""
    decide = _DECIDERS.get(model.name)
    return None if decide is None else decide(operations, initial)


__all__ = ["Contradiction", "Linearizable", "decide_quickly"]
