"""Two records of one leader epoch at one offset are told by who wrote the second, if that is known."""

import json

import pytest

from incidents import diagnose
from tests.incidents.stored import fault, leads, lost, run_in

LED_ON = "broker 1 lost its page cache at 11.000 s (fault #1) and led on in the same leader epoch, without an election"


def cause(directory, *faults, epochs=(4, 4), leaders=(1, 1)):
    """Of two records of epoch 4 at offset 15, when these led at 9 s and at 15 s, in these epochs, nobody between."""
    cluster = [
        leads(at_s, leader, epoch, 20, (1, 2)) for at_s, leader, epoch in zip((9, 15), leaders, epochs, strict=True)
    ]
    cluster.insert(1, {**cluster[0], "at_ns": 13 * 10**9, "role": "none", "leader": -1})
    evidence = json.dumps({"epoch": 4, "values": [1, 2]})
    row = lost(15, 20, anomaly="two-leaders", value=None, evidence=evidence, at_ns=None)
    (found,) = diagnose(run_in(directory, cluster=cluster, faults=list(faults), anomalies=[row]))
    return found.cause


def test_a_leader_that_came_back_without_its_log_and_led_on_wrote_both(tmp_path):
    found = cause(tmp_path, fault(1, "page-cache-loss", [1], 11, 12))
    assert found.sentence == f"{LED_ON}: it wrote other records in it"
    assert found.faults == (1,)
    assert found.evidence == ("It led in leader epoch 4 again at 15.000 s.",)


@pytest.mark.parametrize(
    ("kind", "node", "epochs", "leaders"),
    [
        ("kill", 1, (4, 4), (1, 1)),
        ("page-cache-loss", 2, (4, 4), (1, 1)),
        ("page-cache-loss", 1, (4, 5), (1, 1)),
        ("page-cache-loss", 1, (4, 4), (1, 2)),
    ],
)
def test_otherwise_two_brokers_wrote(tmp_path, kind, node, epochs, leaders):
    found = cause(tmp_path, fault(1, kind, [node], 11, 12), epochs=epochs, leaders=leaders)
    assert found.sentence == "two brokers wrote in one leader epoch"
