"""Each kind of fault is told in words, of one target and of several."""

import json

import pytest

from incidents.deeds import DEEDS, EVENTS, RECIPES, meaning
from incidents.evidence import Evidence
from incidents.faults import Fault, partition_of_file
from nemesis.kinds import LISTED_KINDS
from tests.incidents.stored import fault, run_in


def test_every_kind_of_fault_is_told_in_words_and_none_that_does_not_exist():
    assert DEEDS.keys() | EVENTS.keys() | RECIPES.keys() == LISTED_KINDS.keys()
    assert all(meaning(kind) for kind in LISTED_KINDS)
    assert (meaning("pause"), meaning("unheard-of")) == ("a node was paused", "")
    assert {kind for kind, listed in LISTED_KINDS.items() if listed.family == "recipe"} == RECIPES.keys()


def test_a_deed_agrees_with_the_number_of_its_targets():
    def story(kind, *targets):
        return Fault(4, kind, frozenset(targets), 3_120_000_000, None, lossy=False).story

    assert story("pause", 1, 2) == "brokers 1 and 2 were paused at 3.120 s (fault #4)"
    assert story("connection-resets", 1) == "broker 1 had its connections reset at 3.120 s (fault #4)"
    assert story("connection-resets", 1, 2) == "brokers 1 and 2 had their connections reset at 3.120 s (fault #4)"
    assert story("moved-leader") == "leaders were elected in quick succession at 3.120 s (fault #4)"
    assert story("votes-held") == (
        "a series of faults meant to hold messages of the controllers' quorum back over elections began at 3.120 s"
        " (fault #4)"
    )
    assert story("unheard-of") == "there was the fault unheard-of at 3.120 s (fault #4)"
    assert story("unheard-of", 3) == "broker 3 was under the fault unheard-of at 3.120 s (fault #4)"


def test_a_simulated_loss_of_a_disk_is_not_told_as_one_of_the_page_cache(tmp_path):
    emptied = fault(1, "page-cache-loss", [3], 1, 2, parameters='{"what": "disk lost"}')
    cut = fault(2, "page-cache-loss", [3], 3, 4, parameters='{"what": "12 bytes lost"}')
    disk, cache = Evidence(run_in(tmp_path, faults=[emptied, cut])).faults
    assert disk.story == "broker 3 lost its disk at 1.000 s (fault #1)"
    assert cache.story == "broker 3 lost its page cache at 3.000 s (fault #2)"
    assert disk.lossy
    assert cache.lossy


@pytest.mark.parametrize(("party", "whom"), [("brokers", " from the other brokers"), ("all", ""), (7, "")])
def test_who_is_cut_off_is_told_with_from_whom(tmp_path, party, whom):
    isolated = fault(1, "isolate", [3], 1, 2, parameters=json.dumps({"from": party}))
    (told,) = Evidence(run_in(tmp_path, faults=[isolated])).faults
    assert told.story == f"broker 3 was cut off{whom} at 1.000 s (fault #1)"


def test_a_simulated_fault_is_told_with_what_it_noted_of_itself(tmp_path):
    """As of a setting its value, and of a kill that its node was down."""
    kinds = {1: ("kill", [3], "down already"), 2: ("kill", [3], ""), 3: ("changed-min-isr", [], "to 3")}
    kinds[5] = ("restart", [3], "down already")
    faults = [fault(n, kind, on, n, 9, parameters=json.dumps({"what": what})) for n, (kind, on, what) in kinds.items()]
    faults += [fault(4, "kill", [3], 4, 9, parameters=text) for text in ("null", "{")]
    assert [one.story for one in Evidence(run_in(tmp_path, faults=faults)).faults] == [
        "broker 3 was to be killed, but was down already, at 1.000 s (fault #1)",
        "broker 3 was killed at 2.000 s (fault #2)",
        "min.insync.replicas was set to 3 at 3.000 s (fault #3)",
        *["broker 3 was killed at 4.000 s (fault #4)"] * 2,
        "broker 3 was to be restarted, but was down already, at 5.000 s (fault #5)",
    ]


def test_messages_that_were_delayed_in_one_direction_are_told_with_it(tmp_path):
    noted = {
        1: ("late-connection", "quorum from 101 to 1"),
        2: ("stalled-link", "from 1 to 3"),
        3: ("stalled-link", ""),
    }
    faults = [fault(n, kind, [1, 3], n, 9, parameters=json.dumps({"what": way})) for n, (kind, way) in noted.items()]
    assert [one.story for one in Evidence(run_in(tmp_path, faults=faults)).faults] == [
        "the messages of the quorum connection from controller 101 to broker 1 were delayed at 1.000 s (fault #1)",
        "the messages from broker 1 to broker 3 were delayed at 2.000 s (fault #2)",
        "brokers 1 and 3 had the messages between them delayed at 3.000 s (fault #3)",
    ]


@pytest.mark.parametrize(
    ("evidence", "takes"),
    [
        ("node 3 killed and reaped; node 3: harrow-0/leader-epoch-checkpoint of 8 bytes removed", False),
        ("node 3: bit 3 of byte 71 of my-topic-1/00000000000000000000.log flipped", False),
        ("node 3: harrow-1/00000000000000000000.log truncated from 90 to 12 bytes", True),
        ("node 3: recovery-point-offset-checkpoint of 40 bytes removed", True),
        ("node 3: the disk is empty, 1,664,535 bytes are gone", True),
        ("node 3 lost 1 of 2 writes", True),
    ],
)
def test_a_change_to_a_file_of_another_partition_takes_no_records(evidence, takes):
    fault = Fault(4, "file-loss", frozenset({3}), 0, None, lossy=True, partition=partition_of_file(evidence))
    assert fault.takes_records("harrow", 1) == takes
    assert fault.takes_records("harrow") == ("my-topic" not in evidence)


def test_a_pause_whose_process_was_killed_is_over(tmp_path):
    """Of the faults in effect those of the nodes in question come first where there are many; all are told by start."""
    faults = [fault(1, "pause", [3], 1, 9), fault(2, "pause", [2], 1, 9), fault(3, "kill", [3], 2, 3)]
    faults += [fault(4, "kill", [2], 0.5, 0.8), fault(5, "kill", [2], 7, 8), fault(6, "isolate", [1], 4, 9)]
    found = Evidence(run_in(tmp_path, faults=faults))
    at_ns = 5 * 10**9
    assert [one.number for one in found.in_effect(at_ns, (1,))] == [2, 6]
    assert [one.number for one in found.in_effect(at_ns, (1,), among=(1, 6))] == [6]
    many = Evidence(run_in(tmp_path / "many", faults=[fault(n, "isolate", [n], n, 90) for n in range(1, 12)]))
    assert [one.number for one in many.in_effect(50 * 10**9, (2,))] == [2, 5, 6, 7, 8, 9, 10, 11]


def test_what_a_series_consists_of_comes_before_it_and_what_has_just_ended_counts(tmp_path):
    """Of eight that lasted and one that ended 50 ms before, the series is left out; what ended earlier never counts."""
    faults = [fault(1, "isolate", [1], 1, 4.95), fault(2, "isolate", [2], 1, 4.8), fault(3, "move-cancelled", [], 4, 9)]
    faults += [fault(n, "isolate", [n], 2, 9) for n in range(4, 11)]
    found = Evidence(run_in(tmp_path, faults=faults))
    assert [one.number for one in found.in_effect(5 * 10**9, ())] == [1, 4, 5, 6, 7, 8, 9, 10]
