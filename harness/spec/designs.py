"""What a specification says differently for the designs on ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.spec.checking import expect, whole

if TYPE_CHECKING:
    from harness.spec.spec import Spec

ON_ZOOKEEPER: Final = ("zk-v1", "zk-v2")
"""Protocol versions of Harrow's own broker whose metadata an ensemble keeps, not a quorum of controllers."""

MEMBERS: Final = 3
"""Members of an ensemble, unless the specification says otherwise: the fewest of which one may fail."""


def check_design(spec: Spec) -> None:
    """The designs on ZooKeeper have less than what came of them, and their ensemble runs on this machine alone."""
    design = spec.generation
    expect(spec.environment == "local", "environment", f"local for {design}", spec.environment)
    whole("controllers", spec.controllers, 1, 9, f"members of the ensemble of {design}")
    expect(not spec.combined, "combined", f"none for {design}, which has no controllers", "it on")
    expect(
        not spec.idempotence, "idempotence", f"none for {design}, which has no producer ids", "it on", "leave it out"
    )
    found = str(spec.min_insync_replicas)
    expect(found == "1", "min-insync-replicas", f"1 for {design}, which has no such setting", found, "leave it out")
    expect(not spec.unclean_election, "unclean-election", f"none for {design}, which has no such setting", "it on")
    expect(spec.acks != "0", "acks", f"all or 1 for {design}", spec.acks)
    found = spec.workload
    expect(found == "log", "workload", f"log for {design}, which has neither groups nor their like", found)
