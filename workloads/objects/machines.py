"""The sequential objects that clients keep in a log: what they are asked, and what a command does to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

State: TypeAlias = Any
"""What an object holds: of a register its value, None while nothing was written; of a queue the tuple of its values."""

READS: Final = 0.4
WRITES: Final = 0.25
"""Shares of the commands to a register; the others compare and set."""
ENQUEUES: Final = 0.5


class Call(NamedTuple):
    """What an object is asked. `argument` is as JSON has it."""

    function: str
    argument: Any = None


@dataclass(frozen=True)
class Machine:
    """One kind of object."""

    model: str
    """Name of the model that its history is held against."""
    initial: State
    effects: dict[str, Callable[[State, Any], tuple[State, Any]]]
    """By function: state and argument → the state after it, and the result."""
    silent: frozenset[str]
    """Functions without a result: they are over as soon as they are in the log."""
    choose: Callable[[random.Random, State, int], Call]
    """Draw a command; given what the object was last seen to hold, and a number that nobody else uses."""


def _compare_and_set(state: State, argument: Any) -> tuple[State, Any]:  # noqa: ANN401 - whatever a record says
    old, new = argument
    return (new, True) if state == old else (state, False)


def _register_call(choices: random.Random, seen: State, number: int) -> Call:
    share = choices.random()
    if share < READS:
        return Call("read")
    return Call("write", number) if share < READS + WRITES else Call("cas", [seen, number])


def _queue_call(choices: random.Random, _seen: State, number: int) -> Call:
    return Call("enqueue", number) if choices.random() < ENQUEUES else Call("dequeue")


REGISTER: Final = Machine(
    model="cas-register",
    initial=None,
    effects={
        "read": lambda state, _: (state, state),
        "write": lambda _, argument: (argument, None),
        "cas": _compare_and_set,
    },
    silent=frozenset({"write"}),
    choose=_register_call,
)

QUEUE: Final = Machine(
    model="fifo-queue",
    initial=(),
    effects={
        "enqueue": lambda state, argument: ((*state, argument), None),
        "dequeue": lambda state, _: (state[1:], state[0] if state else None),
    },
    silent=frozenset({"enqueue"}),
    choose=_queue_call,
)
