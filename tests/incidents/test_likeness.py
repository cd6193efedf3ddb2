"""Incidents of a real run and of a simulation are the same for the same harm and cause, and only then."""

import pytest

from incidents import Cause, Incident
from incidents.likeness import is_like
from simulation.invariants.properties import PROPERTY_IDS


def incident(*kinds, within=0, **anomalies):
    found = {name.replace("_", "-"): (number, within) for name, number in anomalies.items()}
    return Incident("headline.", within_contract=False, anomalies=found, spans=(), causes=tuple(map(cause, kinds)))


def cause(kind):
    return Cause(kind, "a sentence")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (incident("wrong-cut", lost_acked_write=5), incident("wrong-cut", P_6=1)),
        (incident("storage-loss", lost_read=5), incident("storage-loss", P_7=1, P_22=1)),
        (incident("joined-too-early", "acknowledged-early", lost_read=5), incident("joined-too-early", P_2=1)),
        (incident("acknowledged-early", lost_acked_write=5), incident("committed-without-member", P_2=1)),
        (incident("no-progress", unavailable=1), incident("no-progress", V_7=1)),
        (incident(unseen=1), incident(unseen=1)),
    ],
)
def test_the_same_harm_by_the_same_cause_is_the_same(one, other):
    assert is_like(one, other)
    assert is_like(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            incident("wrong-cut", lost_acked_write=5), incident("storage-loss", P_7=1), id="another cause of a loss"
        ),
        pytest.param(incident("new-leader", stale_read=5), incident("new-leader", P_2=1), id="another harm"),
        pytest.param(incident("wrong-cut", lost_read=5), incident(P_6=1), id="one cause is not known"),
        pytest.param(incident("wrong-cut", lost_read=0, within=3), incident("wrong-cut", P_6=1), id="no violation"),
        pytest.param(
            incident("dirty-read", "wrong-cut", dirty_read=1), incident("dirty-read", P_12=1), id="read early, and lost"
        ),
        pytest.param(incident("unclean-election", lost_read=1), incident("unclean-election", P_22=1), id="no harm yet"),
    ],
)
def test_another_harm_or_another_cause_is_not_the_same(one, other):
    assert not is_like(one, other)
    assert not is_like(other, one)


def test_the_properties_that_stand_for_harms_exist():
    from incidents.likeness import _HARMS

    named = {name for names in _HARMS.values() for name in names if name.startswith(("P-", "V-"))}
    assert named <= set(PROPERTY_IDS)
