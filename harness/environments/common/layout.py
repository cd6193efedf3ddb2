"""Plans the nodes of a run: their ids, roles and paths, the same in every environment.

`PlannedNode` is the part of a node that its plan determines. Sockets need a directory of their own, since their paths
must be short.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from common.wording import FIRST_CONTROLLER
from harness.environments.base import NodePlan, System
from nemesis.capabilities.cluster import LOG_LINES, Endpoint, NodeError, NodeRole


def roles(
    brokers: int, controllers: int, *, combined: bool = False, controllers_from: int = FIRST_CONTROLLER
) -> Mapping[int, NodeRole]:
    """Node ids in order, with the role of each. `controllers_from` is the id of the first controller."""
    made: dict[int, NodeRole] = dict.fromkeys(range(1, brokers + 1), "broker")
    if combined:
        return made | dict.fromkeys(range(1, controllers + 1), "combined")
    return made | dict.fromkeys(range(controllers_from, controllers_from + controllers), "controller")


def plan_nodes(
    run_directory: Path,
    sockets: Path,
    brokers: int,
    controllers: int,
    storage: Literal["files", "page-cache"],
    *,
    combined: bool = False,
    controllers_from: int = FIRST_CONTROLLER,
) -> Sequence[NodePlan]:
    """Plan brokers, then controllers, in a run's directory; `sockets` is short enough for AF_UNIX.

    `combined`: the first of the brokers are the controllers. `controllers_from`: the id of the first of others.
    """
    directory = run_directory.absolute() / "nodes"
    return tuple(
        NodePlan(
            node_id=node_id,
            role=role,
            directory=directory / str(node_id),
            data=directory / str(node_id) / "data",
            socket=sockets / f"{node_id}.sock",
            storage=storage,
        )
        for node_id, role in roles(brokers, controllers, combined=combined, controllers_from=controllers_from).items()
    )


def listeners_of(system: System, plans: Sequence[NodePlan]) -> Mapping[Endpoint, Sequence[str]]:
    """Names of each node's listeners, in the order of their ports."""
    return {plan.node_id: tuple(system.listeners(plan.role)) for plan in plans}


class PlannedNode(ABC):
    """Implements a part of `nemesis.capabilities.cluster.Node`."""

    @property
    @abstractmethod
    def plan(self) -> NodePlan:
        """Its id, role and paths, as the harness sees them."""

    @abstractmethod
    def log_tail(self, lines: int = LOG_LINES) -> Sequence[str]:
        """The last lines of each of its logs; empty when they cannot be read."""

    @property
    def node_id(self) -> int:
        """Its id in the cluster."""
        return self.plan.node_id

    @property
    def role(self) -> NodeRole:
        """Its role."""
        return self.plan.role

    def _error(self, summary: str) -> NodeError:
        """An error with the summary and the last log lines."""
        lines = self.log_tail()
        return NodeError("\n  ".join([f"{summary}; its last log lines:", *lines]) if lines else summary)


PATH_BYTES_MAX = 107
"""`sun_path` of `struct sockaddr_un` without its final zero (unix(7))."""

OWN_BYTES = 60
"""Bytes that a run adds to the path: a directory with its token, a node's number, a name."""

_ALTERNATIVES = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - a directory of our own is made there


def place_for_sockets() -> Path:
    """Return the temporary directory of this process, or if its path is too long one that is short and writable."""
    usual = Path(tempfile.gettempdir())
    for directory in (usual, *_ALTERNATIVES):
        if len(os.fsencode(directory)) + OWN_BYTES <= PATH_BYTES_MAX and os.access(directory, os.W_OK | os.X_OK):
            return directory
    return usual
