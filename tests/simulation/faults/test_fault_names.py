"""A simulation takes faults by the names of real clusters, and families of them."""

from __future__ import annotations

import pytest

from nemesis.faults.families import FAMILIES, PARTITION
from simulation.faults.shared_kinds import NotSimulated, chosen, family_members
from simulation.scenario.configuration import FAULTS


def test_every_fault_of_the_simulation_is_in_one_family() -> None:
    listed = [kind for family in FAMILIES if family != PARTITION for kind in family_members(family)]
    assert sorted(listed) == sorted(FAULTS)
    assert set(family_members(PARTITION)) < set(family_members("network"))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("kill,page-cache-loss", ("kill", "page-cache-loss")),
        ("page-cache-loss, stalled-link", ("page-cache-loss", "stalled-link")),
        ("page-cache", ("page-cache-loss", "lossy-restart", "torn-page-cache-loss")),
        ("usual", ("kill", "pause", "isolate", "halves", "one-way", "page-cache-loss", "restart")),
        ("usual,clock", ("kill", "pause", "isolate", "halves", "one-way", "page-cache-loss", "restart", "clock-jump")),
        ("none", ()),
        ("all", None),
    ],
)
def test_names_become_the_kinds_of_the_simulation(text: str, kinds: tuple[str, ...] | None) -> None:
    assert chosen(text) == kinds


def test_a_fault_of_real_clusters_alone_is_refused_or_left_out() -> None:
    with pytest.raises(NotSimulated, match="expected a fault that the simulation has too, found packet-loss"):
        chosen("kill,packet-loss")
    assert chosen("kill,packet-loss", leave_out=True) == ("kill",)


@pytest.mark.parametrize(
    ("text", "message"), [("netwrk", "did you mean network?"), ("none,kill", "expected none alone")]
)
def test_nonsense_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="faults: ") as refused:
        chosen(text, leave_out=True)
    assert message in str(refused.value)
