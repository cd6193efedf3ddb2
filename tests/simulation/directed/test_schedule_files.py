from pathlib import Path

import pytest

from simulation import directed
from simulation.directed import DirectedScheduleError, files
from simulation.runs.failures import Layer

GOOD = 'format = 1\nflaws = ["unclean-election"]\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "story.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format = 2", "expected format = 1, found 2"),
        ("format = 1\nsteps = 3", "found 'steps'"),
        ("format", "expected a schedule in TOML"),
        ('format = 1\nflaws = ["gremlin"]', "found 'gremlin'"),
        ('format = 1\ngeneration = "K9"', "found 'K9'"),
        (
            GOOD + "[settings_of.clients]\nlag = 1",
            "settings_of: expected brokers, controllers or a node, found clients",
        ),
        (GOOD + '[[step]]\ndo = "dance"', "step 1: expected one of produce, "),
        (
            GOOD + '[[step]]\ndo = "crash"\nnodes = 3',
            "step 1: crash: expected one of disk, node, survival, found 'nodes'; did you mean node?",
        ),
    ],
)
def test_a_file_that_cannot_be_played_is_reported_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DirectedScheduleError, match=r"^story\.toml: ") as caught:
        files.load(written(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ('[[step]]\ndo = "start"\nnode = 1', "step 1 (start): expected node 1 to be down, found it up"),
        ('[[step]]\ndo = "crash"\nnode = 7', "step 1 (crash): expected a node, found 7"),
        ('[[step]]\ndo = "release"\nlabel = "x"', "step 1 (release): expected messages held as 'x', found none"),
        (
            '[[step]]\ndo = "elapse"\nms = 5\n[[step]]\ndo = "wait"\nleader = 3\nwithin = 100',
            "step 2 (wait): expected leader = 3, found 1 after 100 ms",
        ),
    ],
)
def test_an_impossible_step_is_reported_with_its_number(tmp_path: Path, steps: str, message: str) -> None:
    with pytest.raises(DirectedScheduleError) as caught:
        directed.play_schedule(written(tmp_path, GOOD + steps), flawed=False)
    assert str(caught.value) == f"story.toml: {message}"


def test_a_schedule_is_played_the_same_each_time() -> None:
    path = files.DIRECTED_SCHEDULES.find("stale-answer-applied")
    first, second = (directed.play_schedule(path, flawed=True).outcome for _ in range(2))
    assert (first.digest, first.events) == (second.digest, second.events)


def test_a_step_that_a_finding_makes_impossible_does_not_hide_the_finding(tmp_path: Path) -> None:
    text = files.DIRECTED_SCHEDULES.find("unclean-stays-eligible").read_text()
    path = written(tmp_path, text + '\n[[step]]\ndo = "wait"\nleader = -1\nwithin = 10\n')
    assert directed.play_schedule(path, flawed=True).findings


def test_the_guard_of_committed_metadata_is_what_ends_a_voter_and_without_it_the_cut_is_silent() -> None:
    path = files.DIRECTED_SCHEDULES.find("commit-earlier-epoch")
    assert Layer.CRASH.value in directed.play_schedule(path, flawed=True).layers
    assert (
        Layer.CRASH.value not in directed.play_schedule(path, flawed=True, also=("metadata-cut-below-commit",)).layers
    )
