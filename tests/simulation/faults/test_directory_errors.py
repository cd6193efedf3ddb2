"""Two log directories on each broker: which seeds have them, and what the fault of one of them does and leaves."""

from __future__ import annotations

import pytest

from broker.core.ports.files import StorageError
from simulation.engine.choices import ChoiceSequence
from simulation.engine.disk import SimulatedDisk
from simulation.invariants.observer import property_observers
from simulation.runs.failures import findings
from simulation.scenario import scenario
from simulation.scenario.configuration import DIRECTORY_FAULTS, SimulatedFault
from simulation.scenario.overrides import check_overrides
from simulation.scenario.scenario import SimulationOutcome, log_dirs_of
from simulation.scenario.search import configuration_of
from tests.simulation.small import QUICK

OFFLINE = "storage: one of several log directories failed, its replicas are offline (KIP-112)"
ENDED = "storage: the log directory failed, the broker ends (TR-6)"
SUPERSEDED = "opening: a log is deleted, another directory has a later one of its partition (RT-8)"


def simulated(*faults: SimulatedFault, **overrides: object) -> SimulationOutcome:
    settings = {**QUICK, "partitions": 2, "log_directories": 2, "sole_survivor": True, **overrides}
    return scenario.run(
        ChoiceSequence(1), overrides=settings, faults=faults, observers=property_observers(), keep_log=True
    )


def test_a_fifth_of_the_seeds_has_two_directories_and_the_fault_of_one_and_the_others_are_as_before() -> None:
    several = 0
    for seed in range(1, 501):
        drawn = configuration_of(ChoiceSequence(seed))
        several += drawn.log_directories == 2
        assert (drawn.log_directories == 2) == set(DIRECTORY_FAULTS).issubset(drawn.faults)
    assert 75 < several < 125
    assert configuration_of(ChoiceSequence(1), {"log_directories": 2, "faults": ("kill",)}).faults == ("kill",)


def test_only_nodes_that_are_brokers_have_several() -> None:
    apart, combined = (configuration_of(ChoiceSequence(1), {**QUICK, "combined": one}) for one in (False, True))
    two = {"log_directories": 2}
    assert [log_dirs_of(configuration_of(ChoiceSequence(1), {**vars(apart), **two}), node) for node in (1, 100)] == [
        ("/", "/1"),
        ("/",),
    ]
    assert log_dirs_of(configuration_of(ChoiceSequence(1), {**vars(combined), **two}), 1) == ("/", "/1")
    with pytest.raises(ValueError, match="log_directories: expected a whole number from 1 on, found 0"):
        check_overrides({"log_directories": 0})


@pytest.mark.parametrize("index", [0, 1])
def test_a_disk_fails_in_one_directory_alone(index: int) -> None:
    disk = SimulatedDisk()
    names = ("orders-0/log", "1/orders-1/log")
    for name in names:
        disk.append(name, b"one")
    disk.fail_directory(index, reads=False)
    bad, good = names[index], names[1 - index]
    for refused in (
        disk.sync,
        disk.delete,
        lambda name: disk.append(name, b"two"),
        lambda name: disk.truncate(name, 0),
    ):
        with pytest.raises(StorageError):
            refused(bad)
    assert disk.refused == {index}
    disk.append(good, b"two")
    disk.sync(good)
    assert disk.read(bad, 0, 10) == b"one"
    disk.fail_directory(index, reads=True)
    for unreadable in (lambda: disk.read(bad, 0, 1), lambda: disk.size(bad), lambda: disk.list(bad.rpartition("/")[0])):
        with pytest.raises(StorageError):
            unreadable()
    assert disk.read(good, 0, 10) == b"onetwo"
    with disk.laid_open():
        assert disk.read(bad, 0, 10) == b"one"
    disk.mend_directory(index)
    disk.append(bad, b"two")
    assert disk.read(bad, 0, 10) == b"onetwo"


@pytest.mark.parametrize("stops", [0, 100])
@pytest.mark.parametrize("reads", [0, 10])
@pytest.mark.parametrize("index", [0, 1])
def test_the_fault_takes_the_replicas_of_one_directory_offline_and_they_come_back(
    index: int, reads: int, stops: int
) -> None:
    fault = SimulatedFault(4_000, "directory-error", 0, 6_000, index + reads + stops)
    outcome = simulated(fault)
    assert findings(outcome) == []
    assert outcome.marks[OFFLINE] == 1
    assert ENDED not in outcome.marks
    texts = [text for _, _, text in outcome.log_entries]
    what = f"directory-error of 1 (log directory {index}, {'reads and writes' if reads else 'writes'})"
    assert what in texts
    assert f"end of {what}" in texts
    assert ("restart of 1" in texts) == bool(stops)


def test_a_broker_that_starts_while_a_directory_cannot_be_read_serves_what_is_in_the_other() -> None:
    outcome = simulated(
        SimulatedFault(4_000, "directory-error", 0, 7_000, 11), SimulatedFault(5_000, "kill", 0, 1_000, 0)
    )
    assert findings(outcome) == []
    assert outcome.marks[OFFLINE] == 2


def test_a_broker_whose_directories_all_fail_ends() -> None:
    outcome = simulated(*(SimulatedFault(4_000, "directory-error", 0, 7_000, index) for index in (0, 1)))
    assert findings(outcome) == []
    assert ENDED in outcome.marks


@pytest.mark.parametrize("kind", ["page-cache-loss", "disk-loss", "power-cut", "torn-append", "disk-error"])
@pytest.mark.parametrize("combined", [False, True])
def test_the_faults_of_whole_disks_are_survived_with_two_directories_too(kind: str, combined: bool) -> None:
    faults = (SimulatedFault(6_000, kind, 0, 2_000, 1), SimulatedFault(9_000, "directory-error", 1, 2_000, 11))
    outcome = simulated(*faults, combined=combined)
    assert findings(outcome) == []


@pytest.mark.parametrize("generation", ["K1", "K2", "K3", "K4"])
def test_older_versions_survive_the_fault_too(generation: str) -> None:
    faults = [SimulatedFault(4_000 + 500 * node, "directory-error", node, 5_000, 1) for node in range(3)]
    assert findings(simulated(*faults, generation=generation)) == []


@pytest.mark.parametrize(("fails", "losses"), [(True, 1), (False, 2)])
def test_a_broker_that_lost_data_counts_as_lossy_until_its_failed_directory_is_back(fails: bool, losses: int) -> None:
    error = (SimulatedFault(3_500, "directory-error", 0, 8_000, 11),) if fails else ()
    lost = [SimulatedFault(at_ms, "page-cache-loss", node, 1_000, 0) for at_ms, node in ((4_000, 0), (10_000, 1))]
    outcome = simulated(*error, *lost, lossy_budget=1)
    assert findings(outcome) == []
    assert sum(text.startswith("page-cache-loss of") for _, _, text in outcome.log_entries) == losses
