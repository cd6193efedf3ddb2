"""The numbers of the processes of a history, the clients that do one operation after another, and their names.

And the ranges of numbers that workers, the programs that these clients run in, give to records and operations; a
record's number is its value.
"""

from __future__ import annotations

from typing import Final

NUMBERS_PER_WORKER: Final = 1 << 40
"""Values of records, and numbers of operations, of each worker: those of worker n begin at n times as many."""

_WORKERS_NAMED: Final = 1 << 10
"""Runs have fewer workers; greater numbers are from the history of another tool."""

MEMBERS_FROM: Final = 1 << 32
"""First number of the members of groups; those of producers and readers stay below it."""

ADMINISTRATOR: Final = 2 << 32
"""The administrator's number; the clients of the topics that it creates follow, in blocks of their own."""

PROCESSES_PER_TRAFFIC: Final = 1 << 20


def process_name(process: int | None) -> str:
    """Name a process for people, who know it as a client: "client 3", "member 16"; "a client" if it is not known."""
    if process is None:
        return "a client"
    if process > ADMINISTRATOR:
        traffic, client = divmod(process - ADMINISTRATOR, PROCESSES_PER_TRAFFIC)
        return f"client {client} of topic traffic {traffic}"
    if process == ADMINISTRATOR:
        return "the administrator"
    return f"member {process - MEMBERS_FROM}" if process >= MEMBERS_FROM else f"client {process}"


def number_name(number: int | None) -> str:
    """Name the number of a record or of an operation: "17", and "1:17" for that of worker 1 that follows 16 others."""
    if number is None:
        return "unknown"
    worker, own = divmod(number, NUMBERS_PER_WORKER)
    return f"{worker}:{own}" if 0 < worker < _WORKERS_NAMED else str(number)
