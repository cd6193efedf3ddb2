"""Each kind of fault is told in words, of one target and of several."""

from incidents.deeds import DEEDS, EVENTS, RECIPES
from incidents.evidence import Evidence, Fault
from nemesis.kinds import LISTED_KINDS
from tests.incidents.stored import fault, run_in


def test_every_kind_of_fault_is_told_in_words_and_none_that_does_not_exist():
    assert DEEDS.keys() | EVENTS.keys() | RECIPES.keys() == LISTED_KINDS.keys()
    assert {kind for kind, listed in LISTED_KINDS.items() if listed.family == "recipe"} == RECIPES.keys()


def test_a_deed_agrees_with_the_number_of_its_targets():
    def story(kind, *targets):
        return Fault(4, kind, frozenset(targets), 3_120_000_000, None, lossy=False).story

    assert story("pause", 1, 2) == "brokers 1 and 2 were paused at 3.120 s (fault #4)"
    assert story("connection-resets", 1) == "broker 1 had its connections reset at 3.120 s (fault #4)"
    assert story("connection-resets", 1, 2) == "brokers 1 and 2 had their connections reset at 3.120 s (fault #4)"
    assert story("moved-leader") == "leaders were elected in quick succession at 3.120 s (fault #4)"
    assert story("log-info-held").endswith(" about their logs were held back, beginning at 3.120 s (fault #4)")
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
