"""What a killed harness or agent left behind on hosts: asked of a new agent, by what the journal says."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.connection.agent_link import AgentLink
from harness.environments.ssh.connection.installation import install
from harness.environments.ssh.connection.ssh import Connection
from harness.environments.ssh.fleet.facts import examine
from harness.environments.ssh.fleet.hosts import from_told
from harness.environments.ssh.machine import orders_to_heal
from harness.store.journal import Entry


def heal_hosts(token: str, entries: Sequence[Entry]) -> Iterator[str]:
    """Undo what a run left on its hosts; a line for each thing, and for each host that cannot be reached."""
    for entry in entries:
        try:
            for line in heal_host(token, entry):
                yield f"{entry['name']}: {line}"
        except EnvironmentFailed as error:
            yield str(error)


def heal_host(token: str, entry: Entry, dialled: socket.socket | None = None) -> list[str]:
    """Undo what a run left on one host. Raises `EnvironmentFailed`."""
    host = from_told(entry)
    connection = Connection(host, dialled)
    try:
        facts = examine(connection)
        orders = orders_to_heal(entry["node"], token, host, facts)
        link = AgentLink(connection, install(connection, facts), orders, lambda _: None)
        result: list[str] = link.result
    finally:
        connection.close()
    return result
