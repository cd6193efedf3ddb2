"""The names of the designs on ZooKeeper, and how large their ensembles are."""

from __future__ import annotations

from typing import Final

LEADER_RACES: Final = ("zk-v1", "zk-v2")
"""Protocol versions of Harrow's own broker whose replicas race for a leader znode."""

CONTROLLED: Final = ("C1", "C2", "C3")
"""Those after them, of which one broker is the controller."""

ON_ZOOKEEPER: Final = (*LEADER_RACES, *CONTROLLED)
"""All those whose metadata an ensemble keeps, not a quorum of controllers."""

WITH_EPOCHS: Final = ("C2", "C3")
"""Those of them whose batches have the epoch of their leader."""

MEMBERS: Final = 3
"""Members of an ensemble, unless the specification says otherwise: the fewest of which one may fail."""
