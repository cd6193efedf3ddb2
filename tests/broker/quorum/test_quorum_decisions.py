"""What a voter decides, row by row: votes and pre-votes, what is committed, what may be cut (§18)."""

from __future__ import annotations

import pytest

from broker.core.rules.flaws import rules_for
from tests.broker.quorum.voters import NOBODY, UNKNOWN

RULES = rules_for("K5", ())

END = (3, 20)


@pytest.mark.parametrize(
    ("voted_for", "leader", "end", "granted"),
    [
        pytest.param(NOBODY, NOBODY, END, True, id="free"),
        pytest.param(7, NOBODY, END, True, id="given to it before"),
        pytest.param(8, NOBODY, END, False, id="given to another"),
        pytest.param(NOBODY, 8, END, False, id="a leader is known"),
        pytest.param(NOBODY, NOBODY, (3, 19), False, id="a shorter log"),
        pytest.param(NOBODY, NOBODY, (2, 99), False, id="an earlier log"),
        pytest.param(NOBODY, NOBODY, (4, 1), True, id="a later log"),
    ],
)
def test_qu_8_one_vote_for_a_log_as_complete(voted_for: int, leader: int, end: tuple[int, int], granted: bool) -> None:
    assert RULES.quorum.grants_vote(7, voted_for, leader, end, END) is granted


@pytest.mark.parametrize(
    ("leads", "hears", "end", "granted"),
    [(False, False, END, True), (True, False, END, False), (False, True, END, False), (False, False, (3, 19), False)],
)
def test_qu_9_no_pre_vote_against_a_leader(leads: bool, hears: bool, end: tuple[int, int], granted: bool) -> None:
    assert RULES.quorum.grants_pre_vote(leads, hears, end, END) is granted


@pytest.mark.parametrize(
    ("ends", "moved"),
    [
        pytest.param((30, 25, 20), 25, id="a majority of three"),
        pytest.param((30, 25, 22, 20), 22, id="a majority of four"),
        pytest.param((30, UNKNOWN, UNKNOWN), 10, id="unknown ends"),
        pytest.param((30, 20, 20), 10, id="only earlier epochs"),
        pytest.param((30, 21, 20), 21, id="a record of this epoch"),
    ],
)
def test_qu_11_what_a_majority_holds_of_the_leaders_epoch(ends: tuple[int, ...], moved: int) -> None:
    assert RULES.quorum.high_watermark(ends, 10, 20) == moved


def test_qu_11_it_does_not_go_back() -> None:
    assert RULES.quorum.high_watermark((30, 25, 20), 28, 20) == 28


def test_qu_12_only_what_is_flushed_counts() -> None:
    assert RULES.quorum.end_that_counts(8, 11) == 8


@pytest.mark.parametrize(("offset", "may"), [(9, False), (10, True), (11, True)])
def test_qu_17_no_cut_below_the_high_watermark(offset: int, may: bool) -> None:
    assert RULES.quorum.may_truncate_below(offset, 10) is may


@pytest.mark.parametrize(("was_leader", "may"), [(True, False), (False, True)])
def test_qu_1_the_leader_of_the_stored_epoch_does_not_act_in_it(was_leader: bool, may: bool) -> None:
    assert RULES.quorum.may_act_in_stored_epoch(was_leader) is may
