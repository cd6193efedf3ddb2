"""The part of a system under test that runs from an image of its own: environment variables and sidecar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from harness.environments.base import NodePlan


class Contents(Protocol):
    """A system that has an image of its own. Its `command` runs in that image."""

    @property
    def image(self) -> str:
        """The name of the image, which the engine has."""
        ...

    def environment(self, plan: NodePlan) -> Mapping[str, str]:
        """Environment variables of the node's container, besides those of the image."""
        ...

    def sidecar(self, plan: NodePlan, pid: int) -> Sequence[str]:
        """The command of the sidecar, which runs on this machine and serves the node's socket while the node runs."""
        ...
