"""Words for `--faults` that mean several kinds."""

from __future__ import annotations

import pytest

from nemesis.faults import KINDS, USUAL
from nemesis.faults.families import ALL, FAMILIES, PARTITION, WORDS, FaultsError, read, settle
from nemesis.recipes import RECIPES


def test_every_kind_is_of_one_family_and_the_families_are_all_kinds() -> None:
    listed = [kind for family, kinds in FAMILIES.items() if family != PARTITION for kind in kinds]
    assert sorted(listed) == sorted([*KINDS, *RECIPES])


def test_a_family_has_no_name_that_a_kind_has() -> None:
    assert len(set(WORDS)) == len(WORDS)


def test_a_partition_is_what_cuts() -> None:
    assert set(FAMILIES[PARTITION]) < set(FAMILIES["network"])
    assert set(FAMILIES["network"]) - set(FAMILIES[PARTITION]) == {
        *("slow-network", "packet-loss", "packet-duplication", "packet-reordering", "thin-network"),
        "connection-resets",
    }


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("usual",), USUAL),
        (("none",), ()),
        (("clock", "kill"), ("clock", "kill")),
        (("usual", "kill", "slow-disk"), (*USUAL, "slow-disk")),
        (("kill+pause", "kill"), ("kill+pause", "kill")),
    ],
)
def test_what_does_not_depend_on_the_machine_is_put_in_place_at_once(
    words: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    assert read(words) == kinds


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none", "kill"), "faults: expected none alone, found none,kill"),
        (("kill+network",), "faults: expected single faults in kill+network, found network, which is not one"),
        (("netwrk",), "found 'netwrk'; did you mean network?"),
        (("page_cache",), "found 'page_cache'; did you mean page-cache?"),
        (("kill+restarted-then-lost",), "in kill+restarted-then-lost, found restarted-then-lost, which is not one"),
        (("",), "faults: expected the name of a fault (see `harrow faults`), found ''"),
    ],
)
def test_invalid_names_are_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(FaultsError) as refused:
        read(words)
    assert message in str(refused.value)


def test_a_family_means_those_of_its_kinds_that_are_possible() -> None:
    possible = {"clock-jump", "isolate", "halves", "kill"}
    assert settle(("pause", "clock"), possible) == ("pause", "clock-jump")
    assert settle((PARTITION, "isolate"), possible) == ("isolate", "halves")
    assert settle((ALL,), possible) == ("kill", "isolate", "halves", "clock-jump")


def test_a_family_of_which_nothing_is_possible_is_refused() -> None:
    with pytest.raises(FaultsError, match="expected a fault of disk that can be injected, found none"):
        settle(("kill", "disk"), {"kill"})
