"""The interface of nodes of which there are two versions: what an upgrade of a running cluster is written against."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class UpgradableNode(Protocol):
    """A node that can be started with the next version of the system. Errors are `NodeError`."""

    @property
    def next_version(self) -> str:
        """The version to upgrade to. Raises `NodeError` in a run that has only one."""
        ...

    def version(self) -> str | None:
        """The version that the node's process reports; None if it does not answer."""
        ...

    def use_next_version(self) -> None:
        """Run the next version from the next start on."""
        ...
