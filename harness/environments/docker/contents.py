"""What a container of somebody's image is told, and who answers for it: a part of a system under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from harness.environments.base import NodePlan


class Contents(Protocol):
    """A system that is in an image of its own. Its `command` is one of that image."""

    @property
    def image(self) -> str:
        """The image's name; it is there."""
        ...

    def environment(self, plan: NodePlan) -> Mapping[str, str]:
        """What the node's container has in its environment besides what the image gives it."""
        ...

    def attendant(self, plan: NodePlan, pid: int) -> Sequence[str]:
        """A command of this machine that answers for the node's process at its socket, for as long as that lives."""
        ...
