"""Decides special histories in O(n log n): the problem is hard only if it is not known which write a read saw.

| module | when |
|---|---|
| `register` | every value is written once, nothing is compared |
| `log` | every completed append returns its offset |
| `sets` | nothing is removed |
| `queue` | every value is enqueued once, and every dequeue that may have happened returns its value |

Each returns None if it does not apply: then the search decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from checkers.linearizability.models import Model, State
from checkers.linearizability.operations import Operation
from checkers.linearizability.special.contradiction import Contradiction, Linearizable
from checkers.linearizability.special.log import decide_log
from checkers.linearizability.special.queue import decide_queue
from checkers.linearizability.special.register import decide_register
from checkers.linearizability.special.sets import decide_set

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
