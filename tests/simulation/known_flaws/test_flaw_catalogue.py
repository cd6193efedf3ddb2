from dataclasses import fields

import pytest

from broker.core.rules import Rules
from broker.core.rules.flaws import FLAWS, OUTSIDE, Flaw, UnknownRules, rules_for
from broker.core.rules.flaws.properties import PROPERTIES
from broker.core.rules.generations import GENERATIONS
from simulation import directed


def classes(rules: Rules) -> list[type]:
    return [type(getattr(rules, field.name)) for field in fields(rules)]


def test_every_entry_of_the_catalogue_is_a_flaw_or_has_a_reason_not_to_be_one() -> None:
    numbers = {flaw.number for flaw in FLAWS.values()}
    last = max(int(number.removeprefix("B-")) for number in numbers)
    assert last >= 80
    assert numbers | set(OUTSIDE) == {f"B-{number:02}" for number in range(1, last + 1)}
    assert not numbers & set(OUTSIDE)


@pytest.mark.parametrize("flaw", FLAWS.values(), ids=lambda flaw: flaw.name)
def test_a_flaw_replaces_one_rule_object_for_each_of_its_classes_and_nothing_else(flaw: Flaw) -> None:
    for generation in flaw.generations:
        before, after = classes(rules_for(generation, ())), classes(rules_for(generation, (flaw.name,)))
        changed = [(one, other) for one, other in zip(before, after, strict=True) if one is not other]
        assert len(changed) == len(flaw.without)
        assert all(issubclass(other, one) for one, other in changed)


@pytest.mark.parametrize("flaw", FLAWS.values(), ids=lambda flaw: flaw.name)
def test_a_flaw_says_what_it_breaks(flaw: Flaw) -> None:
    assert flaw.properties
    assert set(flaw.properties) <= set(PROPERTIES)
    assert set(flaw.generations) <= set(GENERATIONS)
    assert flaw.summary
    assert flaw.source


def test_every_flaw_that_does_harm_has_a_schedule() -> None:
    assert set(FLAWS) - set(directed.schedules()) == {"metadata-cut-below-commit"}


def test_flaws_of_one_subject_combine() -> None:
    rules = rules_for("K5", ("late-cut", "stale-answer-applied"))
    assert rules.truncation.ms_until_cut() > 0
    assert rules.truncation.accepts_answer((1, 0), (1, 5))


def test_a_flaw_keeps_the_generation_that_it_is_put_into() -> None:
    assert not rules_for("K3", ("unclean-election",)).elections.recovers_by_log()


def test_an_unknown_flaw_is_refused() -> None:
    with pytest.raises(UnknownRules, match="found 'gremlin'"):
        rules_for("K5", ("gremlin",))
