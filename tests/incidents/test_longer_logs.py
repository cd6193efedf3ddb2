"""A follower that has a longer log than its leader, and goes on without cutting it, is found by samples and its log."""

import pytest

from incidents import diagnose
from incidents.evidence import Evidence
from incidents.longer_logs import longer_logs, not_cut
from tests.incidents.stored import HERE, fault, follows, leads, logged, lost, run_in

FOLLOWED = (5, "t-0: follows 3 in epoch 2, log end 10, high watermark 10, ISR [3]")
LONGER = [leads(9, 3, 4, 20, (3,)), follows(10, 1, 3, 4, 32), leads(11, 3, 4, 21, (3,))]
JOINED = [*LONGER, leads(12, 3, 4, 21, (3, 1))]


def found(directory, cluster, *lines, tells=True, until_ns=None):
    if tells:
        logged(directory, 1, FOLLOWED, *lines)
    run = run_in(directory, runs=[HERE], cluster=cluster)
    return longer_logs(Evidence(run).history_of("t", 0), until_ns)


@pytest.mark.parametrize(
    ("later", "went_on"),
    [
        (leads(12, 3, 4, 21, (3, 1)), "was in the ISR again by 12.000 s"),
        (follows(12, 1, 3, 4, 33), "had appended to it by 12.000 s"),
    ],
)
def test_both_logs_are_told_and_how_it_went_on(tmp_path, later, went_on):
    (longer,) = found(tmp_path, [*LONGER, later])
    assert longer.sentence == (
        "Broker 1 followed broker 3, leader epoch 4, with a log that ended at 32, where the leader's had ended at 21;"
        f" it did not cut it, and {went_on}."
    )
    assert not_cut([longer]) == (
        "broker 3 led with a shorter log than broker 1, which followed it and did not cut its own"
    )


def test_what_a_replica_had_before_is_longer_than_the_log_with_which_its_leader_began(tmp_path):
    """The leader has appended more since."""
    cluster = [leads(7, 1, 3, 32, (1,)), leads(9, 3, 4, 20, (3,)), leads(9.4, 3, 4, 40, (3,))]
    (longer,) = found(tmp_path, [*cluster, follows(10, 1, 3, 4, 32), leads(12, 3, 4, 41, (3, 1))])
    assert longer.leader.log_end == 20


@pytest.mark.parametrize(
    ("cluster", "more"),
    [
        pytest.param(JOINED, {"tells": False}, id="nothing would tell of a cut"),
        pytest.param(LONGER, {}, id="it may not have heard of its leader yet"),
        pytest.param([*LONGER, follows(12, 1, 3, 4, 20)], {}, id="it was cut"),
        pytest.param([leads(9, 3, 5, 20, (3,)), *JOINED[1:2], leads(11, 3, 5, 21, (3, 1))], {}, id="another epoch"),
        pytest.param([JOINED[0], follows(10, 1, 2, 4, 32), *JOINED[2:]], {}, id="it followed another broker"),
        pytest.param(JOINED, {"until_ns": 9_000_000_000}, id="it was seen later"),
    ],
)
def test_of_others_nothing_is_told(tmp_path, cluster, more):
    assert found(tmp_path, cluster, **more) == []
    assert not_cut([]) == ""


def test_a_cut_between_two_samples_is_one(tmp_path):
    cut = (10.5, "t-0: diverges from leader 3; cut from 32 to 20")
    assert found(tmp_path, [*LONGER, follows(12, 1, 3, 4, 33), leads(12.1, 3, 4, 33, (3, 1))], cut) == []


def test_a_loss_that_others_still_hold_names_who_went_on_with_another_log(tmp_path):
    """Broker 3 shows offset 25, where broker 1, which leads last, has what broker 2 had written before.

    Broker 2 was cut off then, and broker 3 had been before; broker 3 is cut off when it has shown the record.
    """
    logged(tmp_path, 1, FOLLOWED)
    cluster = [
        leads(5, 2, 3, 32, (1, 2)),
        leads(7, 2, 3, 32, (1, 2)),
        *JOINED,
        leads(13, 3, 4, 40, (3, 1)),
        leads(20, 1, 5, 40, (1, 3)),
    ]
    logs = [
        {"topic": "t", "partition": 0, "offset": 25, "leader_epoch": epoch, "broker": broker, "value": value}
        for broker, epoch, value in ((1, 3, 7), (3, 4, 1025))
    ]
    rows = [lost(25, 12.5, anomaly="lost-read")]
    faults = [fault(4, "isolate", [3], 6, 8.5), fault(5, "isolate", [2], 7, 15), fault(7, "isolate", [3], 14, 30)]
    run = run_in(tmp_path, runs=[HERE], cluster=cluster, logs=logs, anomalies=rows, faults=faults)
    (incident,) = diagnose(run)
    assert (incident.cause.kind, incident.cause.faults) == ("diverged-log-kept", (5, 4, 7))
    assert incident.cause.sentence.startswith("broker 3 led with a shorter log than broker 1, which followed it and")
