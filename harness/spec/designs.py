"""The names of the designs on ZooKeeper, and how large their ensembles are."""

from __future__ import annotations

from typing import Final

ON_ZOOKEEPER: Final = ("zk-v1", "zk-v2")
"""Protocol versions of Harrow's own broker whose metadata an ensemble keeps, not a quorum of controllers."""

MEMBERS: Final = 3
"""Members of an ensemble, unless the specification says otherwise: the fewest of which one may fail."""
