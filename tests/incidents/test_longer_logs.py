"""A follower that has a longer log than its leader, and does not cut it, is found by the samples of both."""

import pytest

from incidents import diagnose
from incidents.evidence import Evidence
from incidents.longer_logs import longer_logs, not_cut
from tests.incidents.stored import follows, leads, lost, run_in

LONGER = [leads(9, 3, 4, 20, (3,)), follows(10, 1, 3, 4, 32), leads(11, 3, 4, 21, (3, 1))]


def found(directory, cluster, until_ns=None):
    return longer_logs(Evidence(run_in(directory, cluster=cluster)).history_of("t", 0), until_ns)


def test_both_samples_are_told(tmp_path):
    (longer,) = found(tmp_path, [*LONGER, follows(12, 1, 3, 4, 32)])
    assert longer.told == (
        "Broker 1 followed broker 3, leader epoch 4, with a log that ended at 32 at 10.000 s, and did not cut it: the"
        " leader's ended at 21 at 11.000 s."
    )
    assert not_cut([longer]) == "broker 1 followed broker 3 with a longer log than its own, and did not cut it"


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param([*LONGER, follows(12, 1, 3, 4, 20)], id="it was cut"),
        pytest.param([*LONGER[:2], leads(11, 3, 4, 40, (3, 1))], id="the leader had grown by then"),
        pytest.param([*LONGER[:2], leads(11, 3, 5, 21, (3, 1))], id="another leader epoch"),
        pytest.param([LONGER[0], follows(10, 1, 2, 4, 32), LONGER[2]], id="it followed another broker"),
    ],
)
def test_of_others_nothing_is_told(tmp_path, cluster):
    assert found(tmp_path, cluster) == []


def test_what_was_sampled_later_is_no_part_of_it(tmp_path):
    assert found(tmp_path, LONGER, 9_000_000_000) == []
    assert not_cut([]) == ""


def test_a_loss_that_others_still_hold_names_who_went_on_with_another_log(tmp_path):
    """Broker 3 acknowledges offset 25, where broker 1, which leads last, has another record."""
    cluster = [*LONGER, follows(12, 1, 3, 4, 32), leads(13, 3, 4, 40, (3, 1)), leads(20, 1, 5, 40, (1, 3))]
    logs = [
        {"topic": "t", "partition": 0, "offset": 25, "leader_epoch": epoch, "broker": broker, "value": value}
        for broker, epoch, value in ((1, 3, 7), (3, 4, 1025))
    ]
    (incident,) = diagnose(run_in(tmp_path, cluster=cluster, logs=logs, anomalies=[lost(25, 12.5, broker=3)]))
    assert incident.cause.kind == "diverged-log-kept"
    assert incident.cause.sentence.startswith("broker 1 followed broker 3 with a longer log than its own, and did not")
