"""Sequential objects that clients store in a log: their commands, and the effect of each command."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

State: TypeAlias = Any
"""State of an object. Register: its value, None before the first write; queue: the tuple of its values."""

READS: Final = 0.4
WRITES: Final = 0.25
"""Shares of the commands to a register; the others compare and set."""
ENQUEUES: Final = 0.5


class Call(NamedTuple):
    """A command to an object. `argument` is a JSON value."""

    function: str
    argument: Any = None


@dataclass(frozen=True)
class StateMachine:
    """One kind of object."""

    model: str
    """Name of the model that checks its history."""
    initial: State
    effects: dict[str, Callable[[State, Any], tuple[State, Any]]]
    """By function: state and argument → the next state, and the result."""
    silent: frozenset[str]
    """Functions without a result: they end as soon as they are in the log."""
    choose: Callable[[random.Random, State, int], Call]
    """Draw a command, given the last observed state of the object and a number that is unique in the run."""


def _compare_and_set(state: State, argument: Any) -> tuple[State, Any]:  # noqa: ANN401 - any JSON value
    old, new = argument
    return (new, True) if state == old else (state, False)


def _register_call(choices: random.Random, seen: State, number: int) -> Call:
    share = choices.random()
    if share < READS:
        return Call("read")
    return Call("write", number) if share < READS + WRITES else Call("cas", [seen, number])


def _queue_call(choices: random.Random, _seen: State, number: int) -> Call:
    return Call("enqueue", number) if choices.random() < ENQUEUES else Call("dequeue")


REGISTER: Final = StateMachine(
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

QUEUE: Final = StateMachine(
    model="fifo-queue",
    initial=(),
    effects={
        "enqueue": lambda state, argument: ((*state, argument), None),
        "dequeue": lambda state, _: (state[1:], state[0] if state else None),
    },
    silent=frozenset({"enqueue"}),
    choose=_queue_call,
)
