"""Starts the client processes of a run on this machine, in the clients' network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from harness.environments.base import EnvironmentFailed, Process
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import ClientProcess, Supervisor
from harness.store.journal import Journal
from nemesis.capabilities.cluster import CLIENTS


def run_client(supervisor: Supervisor, journal: Journal, command: Sequence[str], log: Path) -> Process:
    """Run a client process as endpoint `CLIENTS`, with pipes for standard input and output; its errors go to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    child_input, our_output = os.pipe()
    our_input, child_output = os.pipe()
    try:
        process = supervisor.spawn(command, CLIENTS, child_input, child_output, errors)
    except HelperRefused as refusal:
        os.close(our_output)
        os.close(our_input)
        raise EnvironmentFailed(f"expected to run {command[0]!r} as a client, found: {refusal}") from None
    finally:
        for descriptor in (child_input, child_output, errors):
            os.close(descriptor)
    journal.record("process", what="client", pid=process.pid, start_time=process.start_time)
    return ClientProcess(process, os.fdopen(our_output, "wb"), os.fdopen(our_input, "rb"))
