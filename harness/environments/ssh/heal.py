"""Cleans up what a killed harness or agent left on hosts, with a new agent, according to the journal."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.connection.agent_link import AgentLink
from harness.environments.ssh.connection.installation import install
from harness.environments.ssh.connection.ssh import Connection
from harness.environments.ssh.fleet.facts import examine
from harness.environments.ssh.fleet.hosts import host_from_json
from harness.environments.ssh.machine import healing_config
from harness.store.journal import Entry


def heal_hosts(token: str, entries: Sequence[Entry]) -> Iterator[str]:
    """Clean up a run's hosts; yields a line for each item, and for each host that cannot be reached."""
    for entry in entries:
        try:
            for line in heal_host(token, entry):
                yield f"{entry['name']}: {line}"
        except EnvironmentFailed as error:
            yield str(error)


def heal_host(token: str, entry: Entry, dialled: socket.socket | None = None) -> list[str]:
    """Clean up one host. Raises `EnvironmentFailed`."""
    host = host_from_json(entry)
    connection = Connection(host, dialled)
    try:
        facts = examine(connection)
        config = healing_config(entry["node"], token, host, facts)
        link = AgentLink(connection, install(connection, facts), config, lambda _: None)
        result: list[str] = link.result
    finally:
        connection.close()
    return result
