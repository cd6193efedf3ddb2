"""Findings of the simulator are told in words that explain themselves; what is not known is told as it was found."""

import re

import pytest

from incidents.evidence import Finding
from incidents.findings_in_words import in_words, known_gap, plain


def told(property_id, what, topic="log", partition=0):
    return in_words(Finding("invariant", property_id, what, None, topic, partition, None, ()))


@pytest.mark.parametrize(
    ("property_id", "what", "words"),
    [
        (
            "P-25",
            "log-0: broker 2 was elected by its log beside those of [1, 2], and only [2] are remembered",
            (
                "broker 2 was elected for log-0 by an unclean recovery, which compared the logs of [1, 2]; the "
                "controller keeps only [2] as complete or last known, and the next election may pass over the others"
            ),
        ),
        (
            "P-71",
            "broker 2 goes on, and has not planned its next check ('checkpoint',)",
            "broker 2 runs on and never again stores its high watermarks: it has set no timer for the next time",
        ),
        (
            "P-71",
            "broker 2 goes on, and has not planned its next check ('group', 'expire', 3, 1)",
            (
                "broker 2 runs on and never again looks for expired offsets of groups: it has set no timer for the"
                " next time"
            ),
        ),
        (
            "P-71",
            "controller 100 makes its check ('sessions',) after 40 ms; the interval is 500 ms",
            "controller 100 looks for expired sessions of brokers again after 40 ms, where it is to wait 500 ms",
        ),
        (
            "P-71",
            "controller 100 makes its check ('other',) after 40 ms; the interval is 500 ms",
            "controller 100 makes its check `other` again after 40 ms, where it is to wait 500 ms",
        ),
        (
            "P-35",
            (
                "log-0: broker 3 answered NONE to a FetchRequest of follower 2 of broker epoch 4 in leader epoch 4"
                " from offset 4; by the metadata up to 17 its leader is 3 in epoch 1, its replicas are [3, 1, 2]"
            ),
            (
                "broker 3 answered a fetch of log-0 by follower 2, which named leader epoch 4, as if nothing were"
                " wrong, although by the metadata that it had it led log-0 itself in leader epoch 1"
                " (replicas [3, 1, 2])"
            ),
        ),
        (
            "P-35",
            (
                "log-0: broker 3 answered UNKNOWN_LEADER_EPOCH to a ProduceRequest; by the metadata up to 17 there"
                " is no such partition"
            ),
            (
                "broker 3 refused a write of log-0 with UNKNOWN_LEADER_EPOCH, although by the metadata that it had "
                "there was no partition log-0"
            ),
        ),
        (
            "P-3",
            "log-0: broker 2 has 4…4 of epoch 8 after 3…3 of epoch 0, and another replica after 1…3 of epoch 1",
            (
                "the logs of log-0 agree at offset 4 and differ before it: broker 2 has a record of leader epoch 0"
                " there,"
                " another replica one of 1"
            ),
        ),
        (
            "P-19",
            "log-0: the partition epoch is 23 after a change, and was 23 before",
            (
                "the controller changed the state of log-0 and left its partition epoch at 23: who goes by the older "
                "state is not refused"
            ),
        ),
        (
            "P-23",
            "log-0: replicas [2, 3], ISR [], ELR [1], last known ELR [], min ISR 2, partition epoch 20",
            (
                "the controller lets brokers be elected for log-0 that are not among its replicas [2, 3]: ISR [], ELR "
                "[1], last known ELR []"
            ),
        ),
        (
            "P-23",
            (
                "log-0: the reassignment from [1, 2] to [2, 3] ended with the ISR [2], and without brokers [3],"
                " which it "
                "added"
            ),
            (
                "the controller ended the reassignment of log-0 from [1, 2] to [2, 3] with the ISR [2], before [3], "
                "which it had added, were in sync"
            ),
        ),
        (
            "P-36",
            (
                "log-0: broker 3, leader of epoch 6, answered nothing of a log with the epoch 0 before 4, where it has "
                "1…3 of epoch 1 (crc 554a6806)"
            ),
            (
                "broker 3, leader of log-0 in leader epoch 6, did not tell a follower that their logs differ: before "
                "offset 4 the follower has a record of leader epoch 0, the leader one of 1"
            ),
        ),
        (
            "P-36",
            "log-0: broker 3, leader of epoch 6, answered that it diverges from a log with the epoch 1 before 4",
            (
                "broker 3, leader of log-0 in leader epoch 6, told a follower that their logs differ, though both"
                " have a "
                "record of leader epoch 1 before offset 4"
            ),
        ),
        (
            "P-23",
            "log-0: the reassignment from [1, 2, 3] to [1, 2] ended with the ISR [1], min ISR 2; before it was [1, 3]",
            (
                "the controller ended the reassignment of log-0 from [1, 2, 3] to [1, 2] with the ISR [1], smaller than"
                " min ISR 2; the ISR before that was [1, 3]"
            ),
        ),
        (
            "P-1",
            (
                "log-0: broker 2 leads epoch 4 with the log end 9, and has nothing at 9, where 9…9 of epoch 3 (crc "
                "554a6806) is committed"
            ),
            "broker 2, leader of log-0 in leader epoch 4, lacks the record that is committed at offset 9",
        ),
        (
            "P-1",
            (
                "log-0: broker 2 leads epoch 4 with the log end 9, and has 8…8 of epoch 2 (crc 68433df9) at 8, where "
                "8…8 of epoch 3 (crc 554a6806) is committed"
            ),
            (
                "broker 2, leader of log-0 in leader epoch 4, holds another record than the committed one at offset 8 "
                "(its record is of leader epoch 2, the committed one of 3)"
            ),
        ),
        (
            "P-2",
            (
                "log-0: broker 2 of broker epoch 4 is in the ISR (ISR [1, 2, 3], ELR [], partition epoch 5) and has "
                "99…99 of epoch 1 (crc 68433df9) at 99, where 99…99 of epoch 0 (crc 554a6806) is committed"
            ),
            (
                "broker 2 may be elected for log-0 (ISR [1, 2, 3], ELR []), and holds another record than the "
                "committed one at offset 99 (its record is of leader epoch 1, the committed one of 0)"
            ),
        ),
        (
            "P-2",
            (
                "log-0: broker 2 of broker epoch 4 is in the ELR (ISR [1], ELR [2], partition epoch 5) and has "
                "no log at 3, where 3…3 of epoch 0 (crc 554a6806) is committed"
            ),
            "broker 2 may be elected for log-0 (ISR [1], ELR [2]), and lacks the record that is committed at offset 3",
        ),
        (
            "P-1",
            (
                "log-0: broker 2 leads with log end 4 and without 5…5, which broker 1 has acknowledged (the tree named "
                "-1, in sync [1, 2])"
            ),
            (
                "broker 2 leads log-0 with a log that ends at 4; broker 1 had acknowledged offset 5 when ZooKeeper "
                "named no leader, with the ISR [1, 2]"
            ),
        ),
        (
            "P-25",
            (
                "log-0: broker 4 was elected by its log; the controller has heard of the logs of [], and needs those "
                "of [1, 3] or [1, 3]"
            ),
            "broker 4 was elected for log-0 by its log, before the controller had heard of the logs of [1, 3]",
        ),
        (
            "P-25",
            (
                "log-0: broker 4 was elected by its log; the controller has heard of the logs of [4], and needs those "
                "of [1, 3]"
            ),
            (
                "broker 4 was elected for log-0 by its log, when the controller had heard of the logs of [4] only, and "
                "not of all of [1, 3]"
            ),
        ),
        (
            "P-4",
            (
                "log-0: at 5 5…6 of epoch 1 (crc 68433df9) is committed, and broker 2, leader of epoch 2, commits 5…5 "
                "of epoch 2 (crc 554a6806)"
            ),
            (
                "broker 2, leader of log-0 in leader epoch 2, takes another record for committed at offset 5 than the "
                "one that is"
            ),
        ),
        (
            "P-3",
            (
                "log-0: broker 1 has 0…2 of epoch 0 (crc 554a6806) at 0, below its high watermark 1, where 0…0 of "
                "epoch 1 (crc 68433df9) is committed"
            ),
            (
                "broker 1 holds another record than the committed one at offset 0 of log-0, and takes it for committed "
                "(its record is of leader epoch 0, the committed one of 1)"
            ),
        ),
        (
            "P-6",
            "log-0: broker 2 cut its log from 1 to 0, and what was at 0 is committed: 0…0 of epoch 0 (crc 356bc452)",
            "broker 2 cut its log of log-0 back from end 1 to 0, although offset 0 was committed",
        ),
        (
            "P-6",
            (
                "log-0: broker 2 cut its log from 9 to 4, and what was at 4 is committed: 3…5 of epoch 0 "
                "(crc 356bc452); it cut off the committed offsets 4 to 7"
            ),
            "broker 2 cut its log of log-0 back from end 9 to 4, although offsets 4 to 7 were committed",
        ),
        (
            "P-6",
            (
                "log-0: broker 2 opened its log with the end 4 and lost no power; what was at 4 is committed: "
                "4…5 of epoch 0 (crc 356bc452); it lacks the committed offsets 4 to 7"
            ),
            "broker 2, which had lost no power, opened its log of log-0 without what is committed at offsets 4 to 7",
        ),
        (
            "P-10",
            "log-0: broker 3 has log start 2, high watermark 0, log end 2",
            (
                "the log of log-0 on broker 3 begins at 2, above its high watermark 0: only committed records may be "
                "deleted"
            ),
        ),
        (
            "P-10",
            "log-0: broker 3 has log start 0, high watermark 7, log end 2",
            "broker 3 has the high watermark of log-0 at 7, and its log ends at 2",
        ),
        (
            "P-17",
            "log-0: replicas [1, 2, 3], ISR [1, 2], ELR [3], last known ELR [], min ISR 2, partition epoch 1",
            (
                "the controller still lets broker 3 be elected for log-0, although the ISR [1, 2] alone can commit "
                "(min ISR 2): it need not have what that commits"
            ),
        ),
        (
            "P-17",
            "log-0: replicas [1, 2, 3], ISR [1], ELR [1], last known ELR [], min ISR 2, partition epoch 1",
            (
                "the controller's sets of replicas of log-0 contradict each other: ISR [1], ELR [1], last known ELR "
                "[], min ISR 2"
            ),
        ),
        (
            "P-22",
            "log-0: broker 1 has ISR [1, 2], [1, 2, 3] proposed, and the maximal ISR [1, 2]",
            (
                "broker 1 leads log-0 by what it knows, and goes by the replicas [1, 2] for what is committed, while"
                " its ISR is [1, 2]: until its proposal [1, 2, 3] is answered it must wait for the members of both"
            ),
        ),
        ("crash", "node 100 crashed: KeyError: 1", "controller 100 ended by itself: KeyError: 1"),
        ("crash", "node 2 crashed: KeyError: 1", "broker 2 ended by itself: KeyError: 1"),
        (
            "V-5",
            "step 5: expected acked = [2], found [] after 20000 ms",
            "step 5 of the schedule waited 20000 ms for `acked` = [2], found []",
        ),
    ],
)
def test_a_known_sentence_is_told_in_words(property_id, what, words):
    assert told(property_id, what) == words


def test_a_sentence_that_is_not_known_is_told_as_it_was_found():
    what = "log-0: broker 1 has log start 2, high watermark 0, log end 2, and an excuse"
    assert (
        told("P-10", what) == "broker 1 has log start 2, high watermark 0, log end 2, and an excuse (partition log-0)"
    )
    assert told("P-99", "something is wrong") == "something is wrong"


def test_no_word_of_the_run_is_taken_for_a_reference_to_a_pattern():
    assert told("crash", r"node 100 crashed: \1 {name} \g<9>") == r"controller 100 ended by itself: \1 {name} \g<9>"


JARGON = re.compile(r"…|\bcrc\b|maximal ISR|\bvoter\b|partition epoch \d+\.$|log start", re.IGNORECASE)


def test_words_of_the_simulator_are_not_left_in_sentences_that_are_told():
    sentence = told(
        "P-R3", "voter 101 has in its metadata log 10…10 of epoch 1, and another replica 10…11 of epoch 1", None
    )
    assert JARGON.search(sentence) is None
    assert sentence == "the metadata log of controller 101 differs from another controller's at offset 10 of epoch 1"


@pytest.mark.parametrize(
    ("voted_for", "knows"),
    [
        (101, "is in quorum epoch 2 and has voted for itself"),
        (100, "is in quorum epoch 2 and has voted for controller 100"),
        (-1, "is in quorum epoch 2"),
    ],
)
def test_of_a_vote_that_is_not_stored_is_said_whose_and_what_for(voted_for, knows):
    what = f"voter 101 is in quorum epoch 2, has voted for {voted_for}, and has nothing on its disk"
    harm = "after a restart it does not know that, and may vote again"
    assert told("P-79", what, None) == f"controller 101 {knows}, and has nothing on its disk: {harm}"


def test_where_there_is_no_leader_a_finding_says_so():
    found = "P-7: log-0: broker 1 started uncleanly and was not admitted since; leader -1, ISR [], ELR [1]"
    assert plain(Finding("invariant", "P-7", found, None, "log", 0, None, ())) == (
        "broker 1 started uncleanly and was not admitted since; no leader, ISR [], ELR [1] (partition log-0)"
    )


def test_the_flaws_that_a_protocol_version_is_known_for_stand_before_what_they_do():
    found = "P-1: log-0: broker 1 leads (documented for C1: B-12, B-52: logs are synced later)"
    assert known_gap(Finding("invariant", "P-1", found, None, "log", 0, None, ())) == (
        "Protocol version C1 (as in Kafka 0.8.2 and 0.9, on ZooKeeper) is known for it: logs are synced later"
        " (`harrow flaws` describes them as B-12, B-52)."
    )
