"""A partition that gets no leader though it may have one breaks V-20, a quorum leader that stays alone V-21."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from broker.core.rules.elections import Election
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import controller_state
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from tests.simulation.invariants.planting import Plant, change_rules, observe

LEADER, CONTROLLER = 6, 9
"""The targets that stand for the leader of the first partition and the active controller, of three brokers and three
controllers."""

LONG = {"duration_ms": 40_000}
LEADER_DIES = SimulatedFault(4_000, "kill", LEADER, 25_000, 0)
CONTROLLER_ALONE = SimulatedFault(4_000, "isolate", CONTROLLER, 15_000, 0)


def nobody_elected() -> Plant:
    """No leader is ever replaced."""

    def stay(
        leader: int, _replicas: object, isr: tuple[int, ...], elr: tuple[int, ...], is_active: Callable[[int], bool],
        **_rest: object,
    ) -> Election:  # fmt: skip
        return Election(leader if is_active(leader) else -1, isr, elr)

    return change_rules("elections", elect=stay)


def never_resigning() -> Plant:
    return change_rules("quorum", resigns_without_majority=lambda: False)


def test_a_leader_that_is_replaced_breaks_nothing() -> None:
    assert observe(faults=[LEADER_DIES], **LONG).failure is None


def test_a_leader_that_is_not_replaced_breaks_v_20_while_the_fault_lasts() -> None:
    outcome = observe(nobody_elected(), faults=[LEADER_DIES], **LONG)
    assert outcome.failed_property == "V-20"
    assert outcome.virtual_ms < 29_000


def test_nobody_is_blamed_for_a_missing_leader_while_no_controller_can_commit() -> None:
    faults = [LEADER_DIES, *(SimulatedFault(8_500, "kill", node, 20_000, 0) for node in (3, 4))]
    outcome = observe(nobody_elected(), faults=faults, **LONG)
    assert outcome.failed_property == "V-20"
    assert outcome.virtual_ms > 28_500


def test_a_controller_that_is_down_excuses_no_missing_leader_while_a_majority_is_up() -> None:
    faults = [LEADER_DIES, SimulatedFault(8_500, "kill", 5, 20_000, 0)]
    outcome = observe(nobody_elected(), faults=faults, **LONG)
    assert outcome.failed_property == "V-20"
    assert outcome.virtual_ms < 29_000


def all_lost(*, silent: int) -> list[SimulatedFault]:
    """All brokers die, the third of them outside of the ISR; for a while nothing of one's log reaches a controller."""
    back_ms = 12_000 if silent == 3 else 14_000
    answers = [SimulatedFault(back_ms + 1, "late-connection", silent - 1, 2 * 20_000, 300 + link) for link in (5, 7, 9)]
    first = SimulatedFault(4_000, "kill", 2, 8_000, 0)
    others = [SimulatedFault(9_500, "kill", node, 4_500, 0) for node in (0, 1)]
    return [first, *others, *answers]


def recovered(*plants: Plant, silent: int) -> SimulationOutcome:
    return observe(*plants, faults=all_lost(silent=silent), **LONG)


def test_a_recovery_waits_for_no_log_that_it_does_not_need() -> None:
    assert recovered(silent=3).failure is None


def test_a_recovery_that_waits_for_a_log_that_it_does_not_need_breaks_v_20() -> None:
    patient = change_rules("elections", needs_log_info=lambda *_asked: True, needs_every_log_info=lambda: True)
    outcome = recovered(patient, silent=3)
    assert outcome.failed_property == "V-20"
    assert outcome.virtual_ms < 35_000


@pytest.mark.parametrize("needed", [1, 2])
def test_a_recovery_may_wait_for_a_log_that_it_needs(needed: int) -> None:
    outcome = recovered(silent=needed)
    assert outcome.failed_property != "V-20"


def sole_member_dies(*plants: Plant) -> SimulationOutcome:
    """The last member of the ISR dies, and nobody comes back; losses are accepted."""
    faults = [SimulatedFault(4_000, "one-way", LEADER, 12_000, 3), SimulatedFault(12_000, "kill", LEADER, 20_000, 0)]
    return observe(*plants, faults=faults, unclean_recovery="Aggressive", min_insync_replicas=1, **LONG)


def test_a_recovery_that_begins_when_the_last_candidate_is_fenced_breaks_nothing() -> None:
    assert sole_member_dies().failure is None


def test_a_recovery_that_waits_for_somebody_to_come_back_breaks_v_20() -> None:
    outcome = sole_member_dies(change_rules("elections", recovers_on_fencing=lambda: False))
    assert outcome.failed_property == "V-20"
    assert outcome.virtual_ms < 32_000


def test_a_quorum_leader_that_steps_down_breaks_nothing() -> None:
    assert observe(faults=[CONTROLLER_ALONE], **LONG).failure is None


def test_a_quorum_leader_that_stays_without_voters_breaks_v_21() -> None:
    outcome = observe(never_resigning(), faults=[CONTROLLER_ALONE], **LONG)
    assert outcome.failed_property == "V-21"
    assert outcome.virtual_ms < 19_000


def test_a_quorum_leader_that_one_of_two_voters_reaches_need_not_step_down() -> None:
    faults = [SimulatedFault(4_000, "kill", node, 15_000, 0) for node in (3,)]
    assert observe(never_resigning(), faults=faults, **LONG).failure is None


def test_a_voter_that_started_meanwhile_may_have_reached_a_quorum_leader() -> None:
    """In this seed it starts, fetches, and is killed between two looks of the observer."""
    assert not simulate(1952723, {"search": "mixed"}, observed=True).findings


class Flickering(Plant):
    """All links between controllers are cut, but for one voter's to the leader in some stretches of time, in ms."""

    def __init__(self, whole_ms: Sequence[tuple[int, int]]) -> None:
        self.moments = [(3_400, False)]
        for begins, ends in whole_ms:
            self.moments += [(begins, True), (ends, False)]
        self.pair: frozenset[tuple[int, int]] = frozenset()

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """Cut or mend at the moments."""
        while self.moments and cluster.now_us >= self.moments[0][0] * MS:
            _, mends = self.moments.pop(0)
            voters = [node_id for node_id, machine in cluster.machines.items() if machine.settings.is_controller]
            if not self.pair:
                (leader,) = (one for one in voters if controller_state(cluster.machines[one].node).quorum.leads)
                other = next(one for one in voters if one != leader)
                self.pair = frozenset({(leader, other), (other, leader)})
                cluster.transport.cut(frozenset((one, two) for one in voters for two in voters if one != two))
            elif mends:
                cluster.transport.mend(self.pair)
            else:
                cluster.transport.cut(self.pair)


def test_a_voter_whose_link_was_mended_for_less_than_the_time_to_a_look_may_have_reached_a_quorum_leader() -> None:
    flickering = Flickering([(6_050, 6_450)])
    assert observe(flickering, **LONG).failed_property != "V-21"


def test_a_link_that_was_mended_for_a_moment_is_no_excuse_for_ever() -> None:
    assert observe(never_resigning(), Flickering([(6_050, 6_450)]), **LONG).failed_property == "V-21"
