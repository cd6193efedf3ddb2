"""The observer is silent on the correct protocol, and reports only documented flaws of older protocol versions."""

from __future__ import annotations

from functools import partial

import pytest

from broker.core.metadata.image import Image, TopicImage
from broker.core.metadata.records import PartitionState
from broker.core.replica.state import Role
from broker.core.rules.flaws.properties import PROPERTIES
from history.protocol import protocol_rules
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import SimulatedCluster
from simulation.invariants.committed import (
    check_bounds,
    check_candidates,
    check_leader,
    high_watermark_of_leader,
    log_deleted,
    restart_from,
)
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror
from simulation.invariants.knowledge import Deciding, Knowledge
from simulation.invariants.observer import PropertyObserver
from simulation.invariants.properties import is_documented
from simulation.invariants.recoveries import check_longest
from simulation.runs.sweep import simulate
from simulation.scenario import scenario
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.scenario import settings_of
from tests.simulation.invariants.planting import broken_by, change_rules, observe

SEEDS = 16
"""Of each kind; `harrow sim --seeds` tries as many more as one has the time for (docs/guide/simulation.md)."""

OTHERWISE: dict[str, dict[str, object]] = {
    "acks=1": {"acks": 1},
    "acks=0": {"acks": 0},
    "fsync on every write": {"flush_messages": 1},
    "five brokers": {"brokers": 5},
    "unclean elections": {"unclean_election": True},
    "aggressive recovery": {"unclean_recovery": "Aggressive"},
    "snapshots often": {"metadata_snapshot_records": 10},
    "combined roles": {"combined": True},
    "more losses than the contract allows": {"lossy_budget": 3},
    "records deleted": {"faults": ("kill", "page-cache-loss", "isolate", "deleted-records"), "sole_survivor": False},
}

ALONE: dict[str, object] = {
    "group_members": 0,
    "side_topics": False,
    "changing_settings": False,
    "in_flight": 1,
    "retention_ms": 0,
    "retention_bytes": 0,
    "log_append_time": False,
    "clock_error_ms": 0,
    "producer_expiration_ms": 0,
    "log_directories": 1,
}
"""What seeds meant before there were groups and side topics: those of a test are about something else."""


def failures(seeds: range, **overrides: object) -> list[str]:
    """What the observer reports; violations of liveness and anomalies in the history are left out."""
    found = []
    for seed in seeds:
        outcome = scenario.run(ChoiceSequence(seed), overrides=overrides, observers=[PropertyObserver()])
        if outcome.failed_property is not None and outcome.failed_property.startswith(("P-", "crash")):
            found.append(f"seed {seed}: {outcome.failure}")
    return found


def test_some_seeds_of_the_correct_build_break_nothing() -> None:
    assert failures(range(15)) == []


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(56, id="a fetch that leaves out a replica which waits for its fsync"),
        pytest.param(99, id="a follower with other records below the start of its leader's log"),
        pytest.param(743, id="power that fails in the shutdown of a node of both roles"),
        pytest.param(1075, id="a replica that was given up and added again"),
        pytest.param(2464, id="a log start that goes back with a crash"),
        pytest.param(
            6056, id="a follower that loses its disk after it has reported a record and before that is acknowledged"
        ),
        pytest.param(5978, id="a leader that missed two elections, after one of which a follower cut its log"),
        pytest.param(7169, id="a loss while the active controller has not heard of the loss before"),
        pytest.param(7646, id="a change of min ISR, which makes the controller forget who is eligible, near a loss"),
        pytest.param(9575, id="a second loss of the broker that an unclean recovery has made the leader"),
        pytest.param(13345, id="a leader by unclean election, which takes office only in a later epoch"),
        pytest.param(22802, id="a follower whose log ends inside the batch in which its leader's log begins"),
        pytest.param(23684, id="a log that restarts below its start, and a crash before the next checkpoint"),
        pytest.param(4025, id="a process that fails in the midst of an append"),
        pytest.param(1_000_660, id="a reassignment that is cancelled when a member of the ISR has lost its data"),
        pytest.param(1_002_416, id="a recipe that takes all replicas but one away"),
        pytest.param(1_111_306, id="a late vote elects a controller when the next epoch has committed more"),
        pytest.param(1_236, id="a broker that has ended in a node whose controller has not"),
        pytest.param(1_004_860, id="a leader by recovery that stops uncleanly before another replica joins it"),
    ],
)
def test_seeds_that_once_failed_pass(seed: int) -> None:
    assert simulate(seed, ALONE, observed=True).findings == ()


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1_740_204, id="a log that was to restart elsewhere shows what it had deleted again"),
        pytest.param(1_770_726, id="a follower that ends while its empty log begins at its leader's first batch"),
        pytest.param(1_742_192, id="a leader that ends while it appends what it takes anew"),
        pytest.param(1_797_213, id="a follower that ends while it deletes all that its leader has deleted"),
        pytest.param(1_798_498, id="a leader by unclean election that begins above where all was given up"),
        pytest.param(4_000_083, id="power that fails while a replica is created, whose topic is deleted meanwhile"),
        pytest.param(4_000_202, id="a compacted segment without indexes, at a start that knows no settings yet"),
        pytest.param(35_004_014, id="a topic that is created again while a change of the earlier one's ISR is open"),
    ],
)
def test_seeds_of_the_whole_world_that_once_failed_pass(seed: int) -> None:
    assert simulate(seed, {}, observed=True).findings == ()


def test_a_recovery_may_ask_in_vain_through_a_cut_that_is_shorter_than_the_time_between_two_looks() -> None:
    assert simulate(36_309_919, {"search": "mixed"}, observed=True).findings == ()


def test_a_member_may_go_when_its_session_is_over_by_a_clock_that_is_read_in_whole_milliseconds() -> None:
    assert simulate(36_323_977, {"search": "mixed"}, observed=True).findings == ()


def test_that_a_reassignment_ends_when_the_added_are_in_sync_is_documented_also_if_that_change_replaces_them() -> None:
    (found, *_) = simulate(33_610_070, {"search": "mixed", "generation": "K1"}, observed=True).findings
    assert found.what.startswith("P-23: log-0: the reassignment from [1, 2, 3, 4] to [3, 4, 1] ended with the ISR [1]")
    assert "(documented for K1: " in found.what


def test_a_follower_that_has_deleted_records_of_a_later_epoch_than_its_leaders_loses_nothing_when_it_dies() -> None:
    assert simulate(33_610_503, {"search": "mixed", "generation": "K4"}, observed=True).findings == ()


def test_a_broker_may_be_elected_uncleanly_that_has_yet_to_hear_that_it_was_no_replica_for_a_while() -> None:
    assert simulate(33_611_741, {"search": "mixed", "generation": "K4"}, observed=True).findings == ()


@pytest.mark.parametrize(("elected", "broken"), [(1, None), (2, "P-1"), (-1, "P-1")])
def test_only_a_leader_by_unclean_election_may_have_deleted_what_is_committed(elected: int, broken: str | None) -> None:
    ghost = Ghost("log", 0, committed=[Batch(0, 2, 0, 0, 7, 0, 0, control=False)] * 3, since_epoch=12, elected=elected)
    ghost.state = PartitionState((1, 2, 3), isr=(1,), leader=1, leader_epoch=13, partition_epoch=17)
    log_deleted(no_knowledge(), ghost, 1)
    mirror = ghost.mirrors[1] = ReplicaMirror(1, role=Role.LEADER, leader_epoch=13)
    assert broken_by(lambda: check_leader(no_knowledge(), ghost, mirror)) == broken


def test_a_replica_that_fetches_few_bytes_at_once_may_take_long_to_come_back() -> None:
    assert simulate(36_265_378, {"search": "mixed"}, observed=True).findings == ()


def test_a_member_that_does_not_sync_may_go_though_its_group_became_stable_late() -> None:
    assert simulate(36_222_328, {"search": "mixed"}, observed=True).findings == ()


def test_a_reassignment_may_go_on_whose_added_replica_was_elected_uncleanly() -> None:
    assert simulate(36_235_784, {"search": "mixed"}, observed=True).findings == ()


def test_a_follower_whose_log_begins_later_need_not_know_the_producers_before_it() -> None:
    assert simulate(36_241_061, {"search": "mixed"}, observed=True).findings == ()


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(36_262_113, id="a cut of a log that cannot be compared, and lacks producers that were forgotten"),
        pytest.param(36_262_557, id="a follower that gets the last batch of a producer when it is empty"),
        pytest.param(36_262_753, id="a leader by unclean recovery that has only empty batches of a producer"),
    ],
)
def test_a_compacted_topic_may_lack_what_is_known_of_producers(seed: int) -> None:
    assert simulate(seed, {"search": "mixed", "keyed_topic": True}, observed=True).findings == ()


def test_a_recovery_may_take_back_what_an_operator_gave_up() -> None:
    assert simulate(2_000_101, {"search": "mixed"}, observed=True).findings == ()


def test_a_static_member_may_get_another_id_before_its_generation_is_stored() -> None:
    overrides = {"changing_settings": False, "producer_expiration_ms": 0, "log_directories": 1}
    assert simulate(1_200_578, overrides, observed=True).findings == ()


def test_what_fills_the_place_of_compacted_records_may_be_lost_after_a_cut_within_it() -> None:
    overrides = {"producer_expiration_ms": 0, "log_directories": 1}
    assert simulate(1_600_205, overrides, observed=True).findings == ()


def test_a_follower_joins_only_once_it_has_deleted_what_its_leader_has_deleted() -> None:
    """ISR-E7: its last record was that of a deposed leader, and its leader's log began behind it, empty."""
    overrides = {"producer_expiration_ms": 0, "log_directories": 1}
    assert simulate(1_701_150, overrides, observed=True).findings == ()


@pytest.mark.parametrize(("start", "broken"), [(0, "P-2"), (1, None)])
def test_a_member_of_the_isr_that_keeps_another_record_where_its_leader_has_deleted_one(
    start: int, broken: str | None
) -> None:
    """Readers would get it, had it led next."""
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration())))
    ghost = Ghost("log", 0)
    ghost.state = PartitionState((1, 3), isr=(1, 3), leader=1, leader_epoch=6, partition_epoch=9)
    committed = Batch(0, 0, 6, 1, -1, -1, -1, control=False)
    ghost.committed = [committed]
    ghost.mirrors[1] = ReplicaMirror(1, entries=[committed], start=1)
    ghost.mirrors[3] = ReplicaMirror(3, entries=[committed._replace(epoch=4)], start=start)
    for broker in known.brokers.values():
        broker.up = True
    assert broken_by(lambda: check_candidates(known, ghost)) == broken


def test_a_record_of_k3_that_was_deleted_before_followers_had_it_is_acknowledged_again() -> None:
    assert simulate(10577, {**ALONE, "generation": "K3"}, observed=True).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 1_300, 100))
def test_no_seed_of_the_correct_build_breaks_anything(first: int) -> None:
    assert failures(range(first, first + SEEDS)) == []


@pytest.mark.slow
@pytest.mark.parametrize("what", OTHERWISE)
def test_no_seed_of_the_correct_build_breaks_anything_in_other_circumstances(what: str) -> None:
    assert failures(range(2_000, 2_000 + SEEDS // 2), **OTHERWISE[what]) == []


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["K1", "K2", "K3", "K4"])
def test_older_generations_break_only_what_they_are_known_for(generation: str) -> None:
    found = failures(range(3_000, 3_000 + SEEDS), generation=generation)
    assert [failure for failure in found if not is_documented(failure)] == []


def test_the_loss_of_the_last_replica_of_k3_is_reported_as_documented() -> None:
    faults = [
        SimulatedFault(5_000, "kill", 1, 9_000, 0),
        SimulatedFault(5_100, "kill", 2, 9_000, 0),
        SimulatedFault(12_000, "page-cache-loss", 0, 500, 0),
    ]
    outcome = observe(faults=faults, generation="K3")
    assert is_documented(str(outcome.failure))
    assert outcome.failed_property in ("P-1", "P-2")
    assert observe(faults=faults, generation="K5").failure is None


def test_the_loss_of_a_last_replica_of_k3_that_crashed_twice_is_reported_as_documented() -> None:
    """Its second crash cost nothing more; with the first it had lost what it then led without."""
    process = ("kill", "pause", "isolate", "halves", "brokers-from-controllers")
    kinds = (*process, "slow-disk", "disk-loss", "moved-leader", "late-metadata", "lossy-restart", "torn-append")
    (finding, *_) = simulate(4727, {"generation": "K3", "faults": kinds, **ALONE}, observed=True).findings
    assert is_documented(finding.what)


def test_every_property_that_can_be_reported_has_a_statement() -> None:
    assert {"P-1", "P-24", "P-R5", "V-4"} <= set(PROPERTIES)
    reported = {rule.id: rule.statement for rule in protocol_rules().values() if rule.is_property and not rule.absent}
    assert set(reported) == set(PROPERTIES)
    assert all(statement and not statement.endswith(".") for statement in reported.values())


@pytest.mark.parametrize(("start", "known"), [(3, {}), (0, {(7, 0): 2})])
def test_after_an_unclean_election_deleted_records_tell_nothing_of_producers(
    start: int, known: dict[tuple[int, int], int]
) -> None:
    """A leader that lost its disk, and whose log begins where the deleted records end, knows no producer."""
    cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration()))
    ghost = Ghost("log", 0)
    kept, lost = (Batch(base, base + 2, 0, base, 7, 0, base, control=False) for base in (0, 3))
    ghost.committed = [kept] * 3 + [lost] * 3
    mirror = ghost.mirrors[3] = ReplicaMirror(3)
    mirror.start = start
    mirror.entries = [None] * 3 if start else [kept] * 3
    restart_from(Knowledge.of(cluster), ghost, 3, 6)
    assert (len(ghost.committed), ghost.sequences) == (3, known)


@pytest.mark.parametrize(("elected", "broken"), [(5, None), (4, "P-10")])
def test_after_an_unclean_election_a_high_watermark_may_be_as_old_as_its_checkpoint(
    elected: int, broken: str | None
) -> None:
    """A process that starts again has what was on the disk; what it learned since the election was right."""
    cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration()))
    ghost = Ghost("log", 0, since_epoch=elected)
    mirror = ghost.mirrors[3] = ReplicaMirror(3, entries=[Batch(0, 2, 4, 0, 7, 0, 0, control=False)] * 3)
    for epoch, high_watermark in ((4, 3), (6, 0)):
        mirror.high_watermark = high_watermark
        mirror.learns(epoch)
    mirror.starts_with(3)
    mirror.leader_epoch = 6
    assert broken_by(lambda: check_bounds(Knowledge.of(cluster), ghost, mirror, 3)) == broken


@pytest.mark.parametrize(
    ("unclean", "high_watermark", "broken"), [(True, 3, None), (True, 4, "P-10"), (False, 3, "P-10")]
)
def test_a_high_watermark_stays_at_the_start_of_a_log_of_which_an_election_gave_up_deleted_records(
    unclean: bool, high_watermark: int, broken: str | None
) -> None:
    ghost = Ghost("log", 0, since_epoch=5 if unclean else 0)
    mirror = ReplicaMirror(3, entries=[None] * 3 + [Batch(3, 4, 4, 0, 7, 0, 0, control=False)] * 2, start=3)
    mirror.leader_epoch = mirror.high_watermark_epoch = 6
    assert broken_by(lambda: check_bounds(no_knowledge(), ghost, mirror, high_watermark)) == broken


@pytest.mark.parametrize(("start", "broken"), [(5, None), (3, "P-14")])
def test_nothing_is_known_of_the_sequence_numbers_that_a_new_leader_has_deleted(start: int, broken: str | None) -> None:
    ghost = Ghost("log", 0, since_epoch=5, acks_all_only=True, committed=[None] * 3)
    ghost.sequences, ghost.last_of = {(7, 0): 20}, {7: 2}
    later = Batch(5, 5, 6, 0, 7, 0, 25, control=False)
    mirror = ReplicaMirror(3, entries=[None] * 5 + [later], start=start)
    mirror.leader_epoch = mirror.high_watermark_epoch = 6
    check = partial(high_watermark_of_leader, no_knowledge(), ghost, mirror, 3, 6)
    assert broken_by(check) == broken


def no_knowledge() -> Knowledge:
    return Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration())))


@pytest.mark.slow
def test_a_balanced_recovery_that_elects_a_longer_log_of_no_eligible_replica_breaks_p_25() -> None:
    """A replica that was out of everything may have the later epoch and lack what is committed (UR-8)."""
    anyone = change_rules("elections", may_be_elected=lambda member, needed: True)
    recoveries = {**ALONE, "faults": ("recovered-twice",), "fault_interval_ms": 3_000, "unclean_election": False}
    failed = {
        scenario.run(ChoiceSequence(seed), overrides=recoveries, observers=[anyone, PropertyObserver()]).failed_property
        for seed in range(1, 11)
    }
    assert failed == {None, "P-25"}


@pytest.mark.parametrize(
    ("min_isr_then", "elected", "broken"), [(2, 2, None), (2, 1, "P-25"), (3, 1, None), (3, 2, None), (3, 3, "P-25")]
)
def test_a_recovery_goes_on_with_the_min_isr_with_which_it_began(
    min_isr_then: int, elected: int, broken: str | None
) -> None:
    """Where fewer are remembered than min ISR, any replica may be the complete one (UR-6)."""
    cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration(min_insync_replicas=2)))
    state = PartitionState((1, 2, 3), isr=(), leader=-1, leader_epoch=3, partition_epoch=9, last_known_elr=(2, 3))
    assert (
        broken_by(
            lambda: check_longest(
                Knowledge.of(cluster),
                Ghost("log", 0),
                Deciding(state, min_isr=min_isr_then),
                elected,
                {1: (0, 39), 2: (0, 26), 3: (0, 23)},
                Image(),
            )
        )
        == broken
    )


@pytest.mark.parametrize(
    ("strategy", "end_offset", "broken"),
    [("proactive", 1, None), ("proactive", 0, "P-25"), ("manual", 1, "P-25")],
)
def test_a_controller_that_has_appended_that_losses_are_accepted_may_elect_the_longest_log(
    strategy: str, end_offset: int, broken: str | None
) -> None:
    """The setting is committed before the election is."""
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration())))
    state = PartitionState((1, 2, 3), isr=(), leader=-1, leader_epoch=3, partition_epoch=9, last_known_elr=(2, 3))
    topic = TopicImage("log", "id", configs={"unclean.recovery.strategy": strategy})
    logs = {1: (0, 39), 2: (0, 26), 3: (0, 23)}
    assert (
        broken_by(
            lambda: check_longest(
                known, Ghost("log", 0), Deciding(state, min_isr=2), 1, logs, Image(end_offset, topics={"log": topic})
            )
        )
        == broken
    )


@pytest.mark.parametrize(("end_offset", "elected", "broken"), [(1, 2, None), (0, 2, "P-25"), (1, 3, "P-25")])
def test_a_controller_that_has_appended_a_lower_min_isr_may_elect_the_longest_log_of_those_remembered(
    end_offset: int, elected: int, broken: str | None
) -> None:
    """Two that are remembered are enough for min ISR 2, and not for the 3 that are committed (UR-6, UR-8)."""
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration(min_insync_replicas=3))))
    state = PartitionState((1, 2, 3), isr=(), leader=-1, leader_epoch=3, partition_epoch=9, last_known_elr=(2, 3))
    ghost = Ghost("log", 0)
    ghost.state = state
    ahead = Image(end_offset, configs={"min.insync.replicas": "2"})
    logs = {1: (5, 39), 2: (0, 26), 3: (0, 23)}
    deciding = Deciding(state, min_isr=3)
    assert broken_by(lambda: check_longest(known, ghost, deciding, elected, logs, ahead)) == broken
