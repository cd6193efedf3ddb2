"""The workloads `register` and `queue`: objects that clients store as commands in a log.

Every operation is a command that its client appends to a partition. Its effect follows from the commands before it,
so a client that has read the log up to its own command knows the result: a replicated state machine whose consensus
is the broker's. If the broker keeps its promises the objects are linearizable; the checker decides that from the
history, without using offsets.
"""

from __future__ import annotations

from workloads.base import Context, Workload
from workloads.log import LogWorkload
from workloads.objects.commands import Commands
from workloads.objects.machines import QUEUE, REGISTER, StateMachine


def register_workload(context: Context) -> Workload:
    """Return the workload that reads, writes, and compares and sets registers."""
    return _workload(context, REGISTER)


def queue_workload(context: Context) -> Workload:
    """Return the workload that enqueues and dequeues."""
    return _workload(context, QUEUE)


def _workload(context: Context, machine: StateMachine) -> Workload:
    return LogWorkload(context, Commands(machine, context.recorder, context.clock.now), records_max=1)


__all__ = ["queue_workload", "register_workload"]
