"""Plans the nodes of a run: their ids, roles and paths, the same in every environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from harness.environments.base import NodePlan, System
from nemesis.capabilities.cluster import Endpoint, NodeRole

FIRST_CONTROLLER = 100


def roles(brokers: int, controllers: int, *, combined: bool = False) -> Mapping[int, NodeRole]:
    """Node ids in order, with the role of each."""
    made: dict[int, NodeRole] = dict.fromkeys(range(1, brokers + 1), "broker")
    if combined:
        return made | dict.fromkeys(range(1, controllers + 1), "combined")
    return made | dict.fromkeys(range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers), "controller")


def plan_nodes(
    run_directory: Path,
    sockets: Path,
    brokers: int,
    controllers: int,
    storage: Literal["files", "page-cache"],
    *,
    combined: bool = False,
) -> Sequence[NodePlan]:
    """Plan brokers, then controllers, in a run's directory; `sockets` is short enough for AF_UNIX.

    `combined`: the first of the brokers are the controllers.
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
        for node_id, role in roles(brokers, controllers, combined=combined).items()
    )


def listeners_of(system: System, plans: Sequence[NodePlan]) -> Mapping[Endpoint, Sequence[str]]:
    """Names of each node's listeners, in the order of their ports."""
    return {plan.node_id: tuple(system.listeners(plan.role)) for plan in plans}
