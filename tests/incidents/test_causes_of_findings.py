"""Each cause of a finding of the simulator is named where samples and transitions show it, and nowhere else."""

import pytest

from incidents import diagnose, needed
from incidents.evidence import Evidence
from incidents.needed import Needed
from tests.incidents.stored import fault, follows, leads, lost, run_in, settings

LACKS = "log-0: broker 3 of broker epoch 4 is in the ISR (ISR [1, 2, 3], ELR [], partition epoch 2) and has nothing at 5, where 5…5 of epoch 0 is committed"  # fmt: skip  # noqa: E501
DIFFERS = "log-0: broker 3 of broker epoch 4 is in the ISR (ISR [1, 2, 3], ELR [], partition epoch 2) and has 5…5 of epoch 0 at 5, where 5…5 of epoch 1 is committed"  # fmt: skip  # noqa: E501
END_S = 20


def line(at_s, node, text, source=None, **more):
    return {"at_us": int(at_s * 1_000_000), "node_id": node, "text": text, "source": source, **more}


def cause_of(directory, property_id, what, *, story=(), cluster=(), faults=(), **changed):
    """The cause of a run whose only finding is made at `END_S`."""
    ended = line(END_S, 0, f"VIOLATION of {property_id}: {what}")
    (incident,) = diagnose(
        run_in(
            directory,
            findings=[{"layer": "invariant", "property_id": property_id, "what": what}],
            story=[*story, ended],
            cluster=[{**row, "topic": "log"} for row in cluster],
            faults=list(faults),
            runs=[settings(**changed)],
        )
    )
    return incident.causes[0] if len(incident.causes) == 1 else [cause.kind for cause in incident.causes]


IN_AND_OUT = [leads(2, 1, 0, 10, (1, 2, 3)), leads(10, 1, 0, 10, (1, 2)), leads(19, 1, 0, 10, (1, 2, 3))]
HELD = follows(5, 3, 1, 0, 10)
REMOVED = line(11, 3, "log-0: removed")


def test_a_replica_that_a_reassignment_emptied_is_named(tmp_path):
    cause = cause_of(tmp_path, "P-2", LACKS, story=[REMOVED], cluster=[*IN_AND_OUT, HELD])
    assert (cause.kind, cause.node) == ("emptied-replica", 3)
    assert "deleted its log of log-0 at 11.000 s" in cause.sentence


@pytest.mark.parametrize(
    "since",
    [
        line(12, 1, "Fetch p0 from 0", 3),  # a leader knows of the empty log
        line(12, 1, "fetch without data", 3),
        line(12, 1, "timer", folded={"fetch without data": 4}),  # or may know of it
    ],
)
def test_an_emptied_replica_whose_fetches_a_leader_may_have_seen_is_none(tmp_path, since):
    cause = cause_of(tmp_path, "P-2", LACKS, story=[REMOVED, since], cluster=[*IN_AND_OUT, HELD])
    assert cause.kind == "wrong-cut"


OTHERS_CUT = "log-0: broker 3 of broker epoch 4 is in the ISR (ISR [1, 2, 3], ELR [], partition epoch 2) and has nothing at 5, where 5…7 of epoch 3 is committed"  # fmt: skip  # noqa: E501


@pytest.mark.parametrize(("held", "kind"), [(1, "joined-too-early"), (3, "wrong-cut")])
def test_a_replica_that_cut_off_other_records_than_the_committed_ones_joined_without_these(tmp_path, held, kind):
    """Broker 3's log ends at 10, of epoch `held`, when the leader of epoch 3 has it cut that to 4 and takes it in."""
    log = {"log-0": {"high_watermark": 4, "log_end": 10, "log": [[0, 0, 4], [held, 4, 10]]}}
    story = [
        line(15, 3, "log-0: follows 1 in epoch 3, log end 10, high watermark 4, ISR [1, 2]", state=log),
        line(18, 3, "log-0: diverges from leader 1; cut from 10 to 4", state={"log-0": {"log": [[0, 0, 4]]}}),
        line(19, 1, "log-0: 3 caught up; asking to expand"),
        line(19.5, 1, "AlterPartition: partitions [], error 0"),
    ]
    cluster = [leads(4, 2, 1, 10, (2, 3)), leads(16, 1, 3, 8, (1, 2)), follows(17, 3, 1, 3, 10)]
    cause = cause_of(tmp_path, "P-2", OTHERS_CUT, story=story, cluster=cluster)
    assert cause.kind == kind
    if kind == "joined-too-early":
        joined = "broker 1 had broker 3 join the ISR of log-0 at 20.000 s without the committed offset 5"
        assert cause.sentence == joined
        assert cause.evidence[:2] == (
            "The record was on a leader at 16.000 s, before broker 3 joined.",
            "What broker 3 had there was of leader epoch 1; the committed record is of 3.",
        )


ASKED = line(6, 1, "log-0: 3 caught up; asking to expand")
WRITTEN_LATER = [leads(2, 1, 0, 5, (1, 2)), leads(7, 1, 0, 5, (1, 2)), leads(9, 1, 0, 6, (1, 2))]


def test_a_leader_that_forgets_the_isr_that_it_has_asked_for_is_named(tmp_path):
    cause = cause_of(tmp_path, "P-2", LACKS, story=[ASKED], cluster=WRITTEN_LATER)
    assert cause.kind == "isr-disagreement"
    assert cause.sentence.endswith("after it had asked at 6.000 s to add broker 3 to the ISR")


def test_a_leader_that_was_answered_or_wrote_before_it_asked_has_forgotten_nothing(tmp_path):
    answered = line(8, 1, "AlterPartition: p0 INVALID_UPDATE_VERSION", 100)
    cause = cause_of(tmp_path / "answered", "P-2", LACKS, story=[ASKED, answered], cluster=WRITTEN_LATER)
    assert cause.kind == "joined-too-early"
    before = [leads(2, 1, 0, 6, (1, 2)), leads(7, 1, 0, 6, (1, 2))]
    assert cause_of(tmp_path / "before", "P-2", LACKS, story=[ASKED], cluster=before).kind == "joined-too-early"


def lost_by_3(directory, isr):
    cluster = [leads(2, 1, 0, 10, isr), leads(10, 1, 0, 10, (1, 2)), HELD]
    return cause_of(directory, "P-2", LACKS, cluster=cluster, faults=[fault(1, "page-cache-loss", [3], 6, 7)]).kind


def test_a_replica_that_lost_data_outside_of_the_isr_joined_too_early(tmp_path):
    assert lost_by_3(tmp_path / "outside", (1, 2)) == "joined-too-early"
    assert lost_by_3(tmp_path / "inside", (1, 2, 3)) == "storage-loss"


@pytest.mark.parametrize(("tried", "named"), [(None, 1), (Needed((2,), (1,), (), 3, 9), 2)])
def test_the_first_loss_after_the_record_was_seen_took_it_unless_another_is_known_to_be_needed(tmp_path, tried, named):
    """Broker 3 is down from 6 s on, and hit once more meanwhile."""
    if tried is not None:
        needed.write(tmp_path, tried)
    faults = [fault(1, "page-cache-loss", [3], 6, 12), fault(2, "page-cache-loss", [3], 9, 12)]
    in_sync = [leads(2, 1, 0, 10, (1, 2, 3)), leads(10, 1, 0, 10, (1, 2)), HELD]
    cause = cause_of(tmp_path, "P-2", LACKS, cluster=in_sync, faults=faults)
    assert cause.kind == "storage-loss"
    assert f"(fault #{named}) and still counts as complete" in cause.sentence


FOLLOWS = line(11, 3, "log-0: follows 1 in epoch 1, log end 6, high watermark 0, ISR [1, 2]")


@pytest.mark.parametrize("heard", [[], ["Fetch: p0 UNKNOWN_LEADER_EPOCH, p1 UNKNOWN_LEADER_EPOCH"], ["failed request"]])
def test_a_replica_with_another_record_that_was_told_nothing_joined_too_early(tmp_path, heard):
    story = [FOLLOWS, *(line(12, 3, text, 1) for text in heard)]
    cause = cause_of(tmp_path, "P-2", DIFFERS, story=story, cluster=IN_AND_OUT)
    assert cause.kind == "joined-too-early"
    assert "broker 1 let broker 3 join the ISR of log-0" in cause.sentence


@pytest.mark.parametrize(
    ("story", "cluster"),
    [
        ([FOLLOWS, line(12, 3, "fetch without data", 1)], IN_AND_OUT),  # it was answered
        ([FOLLOWS, line(12, 3, "Fetch: p0 diverges: epoch 0 ends at 2", 1)], IN_AND_OUT),
        ([FOLLOWS, line(12, 2, "timer", folded={"fetch without data": 1})], IN_AND_OUT),  # or may have been
        ([], IN_AND_OUT),
        ([FOLLOWS], [leads(2, 1, 0, 10, (1, 2, 3)), leads(19, 1, 0, 10, (1, 2, 3))]),  # it was never out of the ISR
        (
            [FOLLOWS],
            [leads(2, 2, 0, 9, (1, 2)), leads(10, 2, 0, 9, (1, 2, 3)), leads(11, 1, 1, 9, (1, 3))],
        ),  # it came in it
    ],
)
def test_a_replica_with_another_record_that_may_have_known_kept_it(tmp_path, story, cluster):
    assert cause_of(tmp_path, "P-2", DIFFERS, story=story, cluster=cluster).kind == "diverged-log-kept"


@pytest.mark.parametrize(
    ("at_s", "moved", "says"),
    [
        (20, "log-0: high watermark 3 → 7", True),
        (20, "log-0: ISR [1] → [1, 3], high watermark 3 → 7", True),
        (19, "log-0: high watermark 3 → 7", False),
        (20, "log-1: high watermark 3 → 7", False),
        (20, "log-0: high watermark 7 → 3", False),
    ],
)
def test_the_leader_that_committed_what_a_member_has_otherwise_is_named(tmp_path, at_s, moved, says):
    cause = cause_of(tmp_path, "P-2", DIFFERS, story=[line(at_s, 1, moved, 3)], cluster=IN_AND_OUT)
    assert ("and broker 1, which led it, committed offsets 5 to 6 all the same" in cause.sentence) == says


def test_all_records_that_a_member_has_otherwise_are_named_and_who_committed_them(tmp_path):
    """The violation ends the step: no line says that the high watermark moved, but the states before and after it."""
    marks = [line(at_s, 1, "timer", state={"log-0": {"high_watermark": mark}}) for at_s, mark in ((12, 3), (END_S, 9))]
    what = f"{DIFFERS}; it lacks the committed offsets 5 to 8"
    cause = cause_of(tmp_path, "P-2", what, story=marks, cluster=IN_AND_OUT)
    assert cause.sentence == (
        "broker 3 kept records at offsets 5 to 8 of log-0 that differ from the leader's, and broker 1, which led it,"
        " committed offsets 5 to 8 all the same"
    )
    assert "holds other records than the committed ones at offsets 5 to 8 (its first one is of" in cause.evidence[0]
    (span,) = diagnose(tmp_path)[0].spans
    assert (span.first_offset, span.last_offset) == (5, 8)


def cut_by_3(directory, story=(), committed_in=0):
    what = f"log-0: broker 3 cut its log from 6 to 5, and what was at 5 is committed: 5…5 of epoch {committed_in}"
    cluster = [leads(10, 2, 1, 5, (1, 2, 3)), leads(15, 1, 2, 6, (1, 3)), follows(19, 3, 2, 1, 6)]
    return cause_of(directory, "P-6", what, story=story, cluster=cluster)


def test_a_cut_that_a_former_leader_ordered_is_blamed_on_the_leader_that_counted_the_replica(tmp_path):
    told = line(END_S, 3, "log-0: diverges from leader 2; cut from 6 to 5")
    cause = cut_by_3(tmp_path, [told])
    assert cause.kind == "committed-without-member"
    assert cause.sentence.startswith("broker 1 counted broker 3")


def test_a_cut_that_nobody_or_the_present_leader_ordered_may_be_the_mistake(tmp_path):
    left = ["committed-without-member", "wrong-cut"]
    assert cut_by_3(tmp_path / "nobody") == left
    told = line(END_S, 3, "log-0: diverges from leader 1; cut from 6 to 5")
    assert cut_by_3(tmp_path / "present", [told]) == left


def test_a_record_of_an_epoch_that_its_replica_did_not_know_was_taken_too_early(tmp_path):
    assert cut_by_3(tmp_path, committed_in=2).kind == "stale-answer"


FENCED_ALONE = "log-0: broker 1 is fenced and in the ISR [1], leader -1"


def test_the_last_member_that_stays_after_it_lost_its_data_is_named(tmp_path):
    lossy, harmless = fault(1, "page-cache-loss", [1], 6, 7), fault(1, "pause", [1], 6, 7)
    assert cause_of(tmp_path / "lossy", "P-16", FENCED_ALONE, faults=[lossy]).kind == "storage-loss"
    assert cause_of(tmp_path / "pause", "P-16", FENCED_ALONE, faults=[harmless]).kind == "fenced-member"
    leads_on = FENCED_ALONE.replace("leader -1", "leader 1")
    assert cause_of(tmp_path / "leads", "P-16", leads_on, faults=[lossy]).kind == "fenced-member"


@pytest.mark.parametrize("since", [[], [line(19.5, 100, "broker 1 unfenced")]])
def test_who_fenced_a_member_is_told_if_it_was_not_unfenced_since(tmp_path, since):
    story = [line(19, 100, "sessions of brokers [1] expired; fenced"), *since]
    cause = cause_of(tmp_path, "P-16", FENCED_ALONE, story=story)
    told = "controller 100 fenced broker 1 at 19.000 s and left it in the ISR [1] of log-0"
    assert (cause.sentence == told) == (not since)
    assert cause.kind == "fenced-member"


@pytest.mark.parametrize(("isr", "kind"), [("[1, 2]", "fenced-member"), ("[1]", "metadata")])
def test_a_broker_that_is_fenced_and_left_in_the_isr_explains_a_partition_epoch_that_stands_still(tmp_path, isr, kind):
    story = [
        line(19, 100, f"log-0: ISR [1, 2, 3] → {isr}"),
        line(19, 100, "sessions of brokers [2, 3] expired; fenced"),
    ]
    assert (
        cause_of(tmp_path, "P-19", "log-0: the partition epoch is 1 after a change, and was 1 before", story=story).kind
        == kind
    )


def test_the_controller_that_ended_a_reassignment_is_named(tmp_path):
    given_up = (
        "log-0: the reassignment from [1, 2, 3] to [1, 2] ended with the ISR [1], min ISR 2; before it was [1, 3]"
    )
    story = [line(19, 101, "log-0: replicas [1, 2], ISR [1]"), line(19.5, 102, "log-0: ISR [1, 3] → [1]")]
    assert cause_of(tmp_path / "known", "P-23", given_up, story=story).sentence.startswith("controller 101 ended the")
    assert cause_of(tmp_path / "not", "P-23", given_up).sentence.startswith("the controller ended the")


@pytest.mark.parametrize(("began", "is_told"), [(2, True), (3, False), (4, False)])
def test_a_min_isr_that_was_raised_in_the_run_is_told(tmp_path, began, is_told):
    what = "log-0: the reassignment from [1, 2, 3] to [2, 3] ended with the ISR [2, 3], min ISR 3; before it was [1, 3]"
    evidence = cause_of(tmp_path, "P-23", what, min_insync_replicas=began).evidence
    told = "min.insync.replicas was 2 at the start, and 3 by then: it had been altered in between."
    assert (told in evidence) == is_told
    assert any("at the start" in line for line in evidence) == is_told


def test_an_eligible_replica_that_is_none_is_told_from_replicas_that_were_given_up(tmp_path):
    outside = "log-0: replicas [2, 3, 1], ISR [1], ELR [4], last known ELR [], min ISR 2, partition epoch 5"
    given_up = "log-0: the reassignment from [1, 2, 3] to [1, 2] ended with the ISR [1], min ISR 2; before it was [3]"
    assert cause_of(tmp_path / "outside", "P-23", outside).kind == "eligibility"
    assert cause_of(tmp_path / "given-up", "P-23", given_up).kind == "reassignment"


@pytest.mark.parametrize(
    ("property_id", "kind"),
    [
        *(("P-41", "wrong-refusal"), ("P-42", "stale-answer"), ("P-43", "eligibility"), ("P-45", "wrong-refusal")),
        *(("V-21", "quorum"), ("V-22", "no-progress"), ("P-40", "metadata"), ("P-R1", "quorum")),
        ("P-79", "quorum"),
    ],
)
def test_a_property_that_looks_at_the_decision_itself_names_the_cause(tmp_path, property_id, kind):
    assert cause_of(tmp_path, property_id, "something is wrong").kind == kind


@pytest.mark.parametrize(("error", "kind"), [("NONE", "untrue-answer"), ("FENCED_LEADER_EPOCH", "wrong-refusal")])
def test_a_request_that_was_served_is_told_from_one_that_was_refused_and_names_no_record(tmp_path, error, kind):
    of_fetch = f"answered {error} to a FetchRequest of follower 2 in leader epoch 4 from offset 4"
    what = f"log-0: broker 3 {of_fetch}; by the metadata up to 17 its leader is 3 in epoch 1, its replicas are [3, 2]"
    assert cause_of(tmp_path, "P-35", what).kind == kind
    assert Evidence(tmp_path).findings[0].offset is None


def test_how_the_others_left_the_isr_of_a_replica_that_lost_its_log_is_told_with_the_faults(tmp_path):
    """The order of what was applied later does not matter, nor does what had happened before they were together."""
    lacks = (
        "log-0: broker 2 of broker epoch 9 is in the ISR (ISR [2], ELR []) and has nothing at 0, where 0…0 is committed"
    )
    isr = [(3, "[2, 3] → [1, 2, 3]"), (5, "[1, 2, 3] → [1, 2]"), (6, "[1, 2, 3] → [1, 2]"), (8, "[1, 2] → [2]")]
    story = [{"at_us": at * 1_000_000, "node_id": 101, "text": f"log-0: ISR {to}", "source": None} for at, to in isr]
    cause = cause_of(
        tmp_path,
        "P-2",
        lacks,
        story=story,
        cluster=[{**row, "topic": "log"} for row in (leads(2, 1, 0, 1, (1, 2, 3)), follows(7, 2, 1, 0, 1))],
        faults=[
            *(fault(6, "kill", [1], 6, 12), fault(7, "stalled-link", [1, 2], 7.9, 7.95), fault(9, "kill", [3], 2, 2.5)),
            fault(10, "page-cache-loss", [2], 9, 11),
        ],
    )
    assert (cause.kind, cause.faults[:2]) == ("storage-loss", (10, 6))
    assert cause.evidence[:2] == (
        "Broker 3 left the ISR of log-0 at 5.000 s.",
        "Broker 1 left the ISR of log-0 at 8.000 s: broker 1 was killed at 6.000 s (fault #6).",
    )


CUT = "log-0: broker 3 cut its log from 6 to 5, and what was at 5 is committed: 5…5 of epoch 0"
FOLLOWS = line(19, 3, "log-0: follows 1, cut to 5 in epoch 1, log end 5, high watermark 5, ISR [1, 3]")
LED = [
    leads(2, 2, 0, 6, (1, 2, 3)),
    leads(10, 2, 0, 6, (1, 2, 3)),
    leads(18.5, 1, 1, 6, (1, 3)),
    follows(18, 3, 1, 1, 6),
]


MOVED = fault(4, "moved-leader", [], 18.8, 18.801)


@pytest.mark.parametrize(
    ("faults", "why", "numbers"),
    [
        ([fault(4, "kill", [2], 11, 12)], ", the leader before that, was killed at 11.000 s (fault #4): another", [4]),
        (
            [MOVED],
            " had led before that; leaders were elected in quick succession at 18.800 s (fault #4): another",
            [4],
        ),
        ([fault(4, "late-connection", [2], 11, 12)], " had led before that.", []),
        ([fault(4, "kill", [1], 11, 12)], " had led before that.", []),
        ([fault(4, "kill", [2], 3, 4)], " had led before that.", []),
        ([{**MOVED, "started_ns": 3, "ended_ns": 4}], " had led before that.", []),
    ],
    ids=["the leader was killed", "an operator moved it", "it was only slowed", "another", "long before", "moved then"],
)
def test_why_a_replica_that_cut_its_log_had_got_another_leader(tmp_path, faults, why, numbers):
    needed.write(tmp_path, Needed((), (4,), (), 3, 4))
    cause = cause_of(tmp_path, "P-6", CUT, story=[FOLLOWS], cluster=LED, faults=faults)
    assert (cause.kind, list(cause.faults)) == ("wrong-cut", numbers)
    assert cause.evidence[0] == "Broker 3 had begun to follow broker 1 by 19.000 s, in leader epoch 1."
    assert cause.evidence[1].startswith(f"Broker 2{why}")


def test_of_a_replica_that_nobody_saw_begin_to_follow_nothing_is_told(tmp_path):
    cause = cause_of(tmp_path, "P-6", CUT, cluster=LED, faults=[fault(4, "kill", [2], 11, 12)])
    assert not any("begun to follow" in line for line in cause.evidence)


@pytest.mark.parametrize(
    ("proposed", "faults", "told"),
    [
        (
            "[2]",
            [fault(4, "isolate", [2], 18, 25)],
            "brokers 1 and 3 from the ISR of log-0: broker 2 was cut off at 18",
        ),
        ("[2, 3]", [fault(4, "kill", [1], 18, 25)], "broker 1 from the ISR of log-0: broker 1 was killed at 18"),
        ("[2, 3]", [fault(4, "kill", [3], 18, 25)], "broker 1 from the ISR of log-0."),
        ("[1, 2, 3, 4]", [fault(4, "kill", [1], 18, 25)], ""),
    ],
    ids=["the leader was cut off", "who is dropped was killed", "another was killed", "nobody is dropped"],
)
def test_why_a_leader_wanted_members_out_of_its_isr(tmp_path, proposed, faults, told):
    needed.write(tmp_path, Needed((), (4,), (), 3, 4))
    what = f"log-0: broker 2 has ISR [1, 3, 2], {proposed} proposed, and the maximal ISR [2]"
    cause = cause_of(tmp_path, "P-22", what, faults=faults)
    asked = [line for line in cause.evidence if line.startswith("Broker 2 had asked to drop ")]
    assert bool(asked) is bool(told)
    assert not asked or told in asked[0]
    assert (cause.kind, bool(cause.faults)) == ("isr-disagreement", "fault" in "".join(asked))


@pytest.mark.parametrize(("leader", "told"), [(3, True), (2, False), (-1, False)])
def test_a_leader_that_is_replaced_already_and_does_not_know_it_is_told_from_the_others(tmp_path, leader, told):
    cluster = [leads(10, 2, 6, 8, (1, 2, 3)), follows(19, 1, leader, 7, 8)]
    cause = cause_of(
        tmp_path, "P-22", "log-0: broker 2 has ISR [1, 2], [2] proposed, and the maximal ISR [2]", cluster=cluster
    )
    said = "Broker 3 had been elected by 19.000 s, in leader epoch 7: broker 2 did not know that."
    assert (said in cause.evidence) is told


UNCLEAN = "log-0: broker 3 started uncleanly and was not admitted since; leader -1, ISR [3], ELR [], partition epoch 19"


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        (
            [fault(4, "page-cache-loss", [3], 9, 19)],
            "Broker 3 had started again after this: broker 3 lost its page cache",
        ),
        (
            [fault(4, "kill", [3], 9, 19)],
            "Broker 3 had started again after this: broker 3 was killed at 9.000 s (fault #4).",
        ),
        ([fault(4, "kill", [1], 9, 19)], ""),
        ([fault(4, "pause", [3], 9, 19)], ""),
    ],
    ids=["it lost its log", "it was killed", "another was", "it was only paused"],
)
def test_after_which_stop_a_replica_that_still_counts_had_started_again(tmp_path, faults, told):
    needed.write(tmp_path, Needed((), (4,), (), 3, 4))
    story = [line(12, 101, "log-0: ISR [1, 3] → [3]")]
    cause = cause_of(tmp_path, "P-7", UNCLEAN, story=story, faults=faults)
    assert cause.kind == "storage-loss"
    why = ": broker 1 was killed at 9.000 s (fault #4)" if faults[0]["targets"] == [1] else ""
    left = f"Broker 1 left the ISR of log-0 at 12.000 s{why}."
    assert cause.evidence[0] == left
    assert any(line.startswith("Broker 3 had started again") for line in cause.evidence) is bool(told)
    assert not told or cause.evidence[1].startswith(told)


@pytest.mark.parametrize(
    ("stated", "faults", "told"),
    [
        (
            5,
            [fault(4, "late-metadata", [3], 19, 22)],
            ": broker 3 was told of changes of the metadata late at 19.000 s (fault #4).",
        ),
        (5, [fault(4, "late-metadata", [2], 19, 22)], "."),
        (1, [fault(4, "late-metadata", [3], 19, 22)], None),
    ],
    ids=["its metadata were late", "another's were", "the request was old"],
)
def test_why_a_broker_answered_by_old_metadata(tmp_path, stated, faults, told):
    needed.write(tmp_path, Needed((), (4,), (), 3, 4))
    of_fetch = f"answered NONE to a FetchRequest of follower 2 in leader epoch {stated} from offset 4"
    what = f"log-0: broker 3 {of_fetch}; by the metadata up to 17 its leader is 3 in epoch 3, its replicas are [3, 2]"
    cause = cause_of(tmp_path, "P-35", what, faults=faults)
    assert cause.kind == "untrue-answer"
    heard = [line for line in cause.evidence if line.startswith("Broker 3 had not heard of leader epoch 5 yet")]
    assert heard == ([] if told is None else [f"Broker 3 had not heard of leader epoch 5 yet{told}"])


def test_a_change_of_the_isr_is_found_beside_others_in_a_line_and_of_no_fault_that_was_over_nothing_is_said(tmp_path):
    lacks = (
        "log-0: broker 2 of broker epoch 9 is in the ISR (ISR [2], ELR []) and has nothing at 0, where 0…0 is committed"
    )
    several = "log-1: ISR [2] → [1, 2]; log-0: high watermark 0 → 1, ISR [1, 2] → [2]"
    faults = [fault(7, "stalled-link", [1, 2], 7, 7.5), fault(10, "page-cache-loss", [2], 9, 11)]
    cluster = [leads(2, 1, 0, 1, (1, 2)), follows(7, 2, 1, 0, 1)]
    cause = cause_of(tmp_path, "P-2", lacks, story=[line(8, 101, several)], cluster=cluster, faults=faults)
    assert cause.evidence[0] == "Broker 1 left the ISR of log-0 at 8.000 s."


@pytest.mark.parametrize(
    ("epoch", "kind"), [(3, "storage-loss"), (2, "committed-without-member")], ids=["that record", "another one there"]
)
def test_that_a_member_had_the_record_is_seen_in_transitions_where_no_sample_shows_it(tmp_path, epoch, kind):
    lacks = (
        "log-0: broker 2 of broker epoch 9 is in the ISR (ISR [2], ELR []) and has nothing at 5, where 5…6 of epoch 3"
        " is committed"
    )
    appended = line(8, 2, "Produce: p0 at 5", 1000, state={"log-0": {"log": [[epoch, 0, 7]]}})
    faults = [fault(10, "page-cache-loss", [2], 9, 11)]
    cause = cause_of(tmp_path, "P-2", lacks, story=[appended], cluster=[leads(7, 2, 3, 5, (2,))], faults=faults)
    assert cause.kind == kind


@pytest.mark.parametrize(("written_s", "kinds"), [(15, "committed-without-member"), (10.5, None)])
def test_a_broker_that_joined_long_before_the_record_was_written_was_to_have_it(tmp_path, written_s, kinds):
    cluster = [
        *(leads(2, 1, 0, 5, (1, 2, 3)), leads(8, 1, 0, 5, (1, 2)), leads(10, 1, 0, 5, (1, 2, 3))),
        leads(written_s, 1, 0, 6, (1, 2, 3)),
    ]
    found = cause_of(tmp_path, "P-2", LACKS, cluster=cluster)
    if kinds is None:
        assert found == ["committed-without-member", "joined-too-early"]
    else:
        assert found.kind == kinds
        assert "Broker 3 had joined at 10.000 s; the record was on a leader by 15.000 s." in found.evidence


def test_a_high_watermark_that_an_answer_about_divergence_raised_is_told_from_an_answer_of_another_state(tmp_path):
    raised = "log-0: broker 1 moves its high watermark from 0 to 3 by an answer that tells where its log differs"
    assert cause_of(tmp_path, "P-42", f"{raised} from the leader's; its log begins at 0").kind == "log-bounds"


OPENS = "log-0: broker 3 leads with log end 4 and without 5…6, which broker 1 has acknowledged (the tree named 1, in sync [1, 3])"  # fmt: skip  # noqa: E501
HAD = follows(9, 3, 1, 0, 10)
NOTHING = '{"what": "torn: 0 bytes lost"}'
LOST = "value 1005 was acknowledged at offset 5 of partition 0, and the final reads do not show it (the first of 3)"


@pytest.mark.parametrize(
    ("what", "cluster", "faults", "kind"),
    [
        (OPENS, [HAD], [fault(1, "page-cache-loss", [3], 10, 12, parameters=NOTHING)], "storage-loss"),
        (OPENS, [HAD], [fault(1, "page-cache-loss", [3], 4, 5)], "wrong-cut"),
        (OPENS, [follows(9, 3, 1, 0, 5)], [], "committed-without-member"),
        (OPENS.replace("[1, 3]", "[1, 2]"), [], [], "unclean-election"),
    ],
    ids=["it lost its log", "it cut it off", "it never had it", "it was not in sync"],
)  # fmt: skip
def test_a_leader_that_zookeeper_let_be_without_what_was_acknowledged(tmp_path, what, cluster, faults, kind):
    cause = cause_of(tmp_path, "P-1", what, cluster=cluster, faults=faults)
    assert cause.kind == kind
    spoken = (
        "Broker 3 leads log-0 with a log that ends at 4; broker 1 had acknowledged offsets 5 to 6 when ZooKeeper named"
        " broker 1 as leader, with the ISR"
    )
    assert any(line.startswith(spoken) for line in cause.evidence)


def test_the_records_that_a_simulation_lost_are_named_from_the_first_to_the_last(tmp_path):
    ranges = "offsets 5 to 9 of partition 0, offsets 2 to 2 of partition 1"
    lost = LOST.replace("(the first of 3)", f"(the first of 6: {ranges})")
    found = [{"layer": "history", "property_id": "lost-acked-write", "what": lost}]
    (incident,) = diagnose(run_in(tmp_path, findings=found, story=[line(END_S, 0, "ends")]))
    assert incident.anomalies["lost-acked-write"] == (6, 0)
    spans = [(span.partition, span.first_offset, span.last_offset) for span in incident.spans]
    assert spans == [(0, 5, 9), (1, 2, 2)]
    assert incident.headline.startswith(
        "6 acknowledged writes to 2 partitions (offsets of log-0 5\N{EN DASH}9, log-1 2)"
    )


@pytest.mark.parametrize("name", ["side-a-0", "keyed-0", "__consumer_offsets-0", "exam-keyed-0", "exam.dots-0"])
def test_a_finding_about_another_topic_is_about_that_topic(tmp_path, name):
    cause = cause_of(tmp_path, "P-1", OPENS.replace("log-0", name))
    assert f"its log of {name} lacked committed records" in cause.sentence


def test_what_the_simulator_found_is_no_second_time_within_the_contract(tmp_path):
    """The checkers excuse the loss by a fault; the simulator, which saw each step, does not."""
    findings = [
        {"layer": "invariant", "property_id": "P-1", "what": OPENS},
        {"layer": "history", "property_id": "lost-acked-write", "what": LOST},
    ]  # fmt: skip
    rows = [lost(offset, 10, topic="log", within_contract=True) for offset in (5, 6)]
    rows.append(lost(5, 25, anomaly="nonmonotonic-send", topic="log", within_contract=True))
    (incident,) = diagnose(run_in(tmp_path, findings=findings, anomalies=rows))
    assert incident.anomalies == {"P-1": (1, 0), "lost-acked-write": (2, 0), "nonmonotonic-send": (0, 1)}
    assert incident.headline.endswith("In the end 2 acknowledged writes to log-0 (offsets 5\N{EN DASH}6) were lost.")


def test_the_place_of_a_finding_is_where_its_record_is_not_where_an_earlier_one_was_acknowledged(tmp_path):
    what = "value 126 was sent after 123 had been acknowledged at offset 122 of partition 0, and is at offset 101"
    found = [{"layer": "history", "property_id": "reordered-send", "what": what}]
    (finding,) = Evidence(run_in(tmp_path, findings=found)).findings
    assert (finding.partition, finding.offset, finding.value) == (0, 101, 126)


def test_a_log_that_has_lost_what_it_had_synced_is_blamed_on_its_own_broker(tmp_path):
    """Nobody ordered that, and no fault may take what was synced."""
    cause = cause_of(tmp_path, "P-6", "log-0: broker 2 had synced up to 38 and opened its log with the end 34")
    assert (cause.kind, cause.node) == ("wrong-cut", 2)
    assert "broker 2 had synced up to 38 and opened its log with the end 34" in cause.sentence
