"""Faults of disks, each on a real node, by every mechanism that supports it: their effect, and the remaining data."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.kernel.process_identity import wait_until
from harness.environments.machine.mechanisms import DISKS
from harness.environments.storage.node_disk import SECTOR_BYTES
from history.contract import ENDING_KINDS, LOSSY_KINDS
from nemesis.capabilities.cluster import NodeError
from nemesis.faults import KINDS
from nemesis.faults.base import Site
from tests.harness.environments.conftest import cluster_in, need
from tests.support.real_faults import Fired, fire, real_site
from tests.support.stand_in import order

_READY_S = 20.0
LOG = "0.log"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("local", "ext4"), marks=pytest.mark.root),
        pytest.param(("local", "fuse"), marks=pytest.mark.fuse),
        pytest.param(("local", "page-cache")),
        pytest.param(("docker", "ext4"), marks=pytest.mark.docker),
        pytest.param(("docker", "fuse"), marks=[pytest.mark.docker, pytest.mark.fuse]),
    ],
    ids="-".join,
)
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MachineEnvironment]:
    where, disk = request.param
    need(disk)
    directory = tmp_path_factory.mktemp("disks")
    with cluster_in(where, directory, brokers=1, controllers=0, network="proxies", page_cache=disk) as made:
        yield made


@pytest.fixture
def site(environment: MachineEnvironment) -> Site:
    """A node that serves, with an empty disk."""
    node = environment.cluster.nodes[1]
    if not node.is_alive():
        node.start()
        node.await_ready(_READY_S)
    if node.disk.files():
        node.kill()
        node.disk.wipe()
        node.start()
        node.await_ready(_READY_S)
    return real_site(environment)


def can(environment: MachineEnvironment, capability: str) -> None:
    if capability not in environment.capabilities:
        pytest.skip(f"{capability} is not offered here")


def append(environment: MachineEnvironment, count: int, *, sync: bool, file: str = LOG) -> str | None:
    answer: str | None = order(environment.plans[0], do="append", file=file, bytes=count, sync=sync)
    return answer


def read(environment: MachineEnvironment, file: str = LOG) -> bytes:
    return (environment.cluster.nodes[1]._disk.view(environment.plans[0]) / file).read_bytes()


@contextmanager
def writing(work: Callable[[], None]) -> Iterator[None]:
    """Have the node work on its disk meanwhile: only requests meet a trouble."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join(10)
    assert not thread.is_alive()


@contextmanager
def fire_while(
    site: Site, kind: str, work: Callable[[], None], parameters: dict[str, str] | None = None
) -> Iterator[Fired]:
    """Fire a fault, and have the node begin to work on its disk when it is in trouble."""
    disk = site.cluster.nodes[1].disk
    thread = threading.Thread(target=lambda: wait_for(lambda: disk.trouble is not None) and work(), daemon=True)
    thread.start()
    with fire(site, kind, (1,), parameters) as fault:
        yield fault
    thread.join(10)
    assert not thread.is_alive()


def wait_for(condition: Callable[[], bool]) -> bool:
    return wait_until(condition, 10.0)


def test_a_prefix_of_what_was_not_synced_survives(environment: MachineEnvironment, site: Site) -> None:
    append(environment, 1000, sync=True)
    append(environment, 5000, sync=False)
    with fire(site, "torn-page-cache-loss", (1,), {"survives": "prefix", "seed": "3"}) as fault:
        left = read(environment)
        assert 1000 < len(left) < 6000
        assert left == b"x" * len(left)
        assert f"{len(left) - 1000:,} unsynced bytes survived" in fault.evidence


def test_some_sectors_survive_and_the_others_are_zeros(environment: MachineEnvironment, site: Site) -> None:
    append(environment, 700, sync=True)
    append(environment, 40 * SECTOR_BYTES, sync=False)
    with fire(site, "torn-page-cache-loss", (1,), {"survives": "torn", "seed": "3"}):
        left = read(environment)
    assert left[:700] == b"x" * 700
    first = SECTOR_BYTES * 2
    sectors = {left[at : at + SECTOR_BYTES] for at in range(first, len(left) - SECTOR_BYTES, SECTOR_BYTES)}
    assert sectors == {b"x" * SECTOR_BYTES, bytes(SECTOR_BYTES)}


def test_a_tail_of_zeros_is_left(environment: MachineEnvironment, site: Site) -> None:
    append(environment, 1000, sync=True)
    append(environment, 5000, sync=False)
    with fire(site, "torn-page-cache-loss", (1,), {"survives": "zeros"}):
        assert read(environment) == b"x" * 1000 + bytes(5000)


def test_a_bit_is_turned(environment: MachineEnvironment, site: Site) -> None:
    append(environment, 1000, sync=True)
    with fire(site, "bit-flip", (1,), {"files": "log", "pick": "5"}) as fault:
        left = read(environment)
        assert "of 0.log flipped" in fault.evidence
    assert sum((byte ^ ord("x")).bit_count() for byte in left) == 1


def test_a_file_is_cut_and_stays_cut(environment: MachineEnvironment, site: Site) -> None:
    append(environment, 1000, sync=True)
    with fire(site, "file-truncation", (1,), {"files": "log", "pick": "5"}) as fault:
        left = environment.cluster.nodes[1].disk.files()[LOG]
        assert left < 1000
        assert f"truncated from 1000 to {left} bytes" in fault.evidence
        environment.cluster.nodes[1].lose_page_cache()
        assert environment.cluster.nodes[1].disk.files() == {LOG: left}


def test_a_file_is_lost_and_no_other(environment: MachineEnvironment, site: Site) -> None:
    append(environment, 1000, sync=True)
    append(environment, 100, sync=True, file="0.index")
    with fire(site, "file-loss", (1,), {"files": "index"}):
        assert environment.cluster.nodes[1].disk.files() == {LOG: 1000}


def test_a_disk_is_lost_with_all_that_was_synced(environment: MachineEnvironment, site: Site) -> None:
    append(environment, 1000, sync=True)
    with fire(site, "disk-loss", (1,)) as fault:
        assert "the disk is empty, 1,000 bytes are gone" in fault.evidence
        assert environment.cluster.nodes[1].disk.files() == {}
    assert append(environment, 10, sync=True) is None


def test_a_disk_goes_back_to_what_it_was(environment: MachineEnvironment, site: Site) -> None:
    append(environment, 1000, sync=True)
    pid = environment.cluster.nodes[1].pid
    with fire(site, "disk-rollback", (1,)):
        assert environment.cluster.nodes[1].pid == pid
        append(environment, 500, sync=True)
        append(environment, 500, sync=True, file="1.log")
    assert environment.cluster.nodes[1].disk.files() == {LOG: 1000}
    assert environment.cluster.nodes[1].pid != pid


def test_files_of_a_node_that_runs_are_not_changed(environment: MachineEnvironment, site: Site) -> None:
    append(environment, 1000, sync=True)
    for change in (
        lambda disk: disk.flip_bit(LOG, 1),
        lambda disk: disk.truncate(LOG, 1),
        lambda disk: disk.remove(LOG),
        lambda disk: disk.wipe(),
    ):
        with pytest.raises(NodeError, match="expected node 1 to have been killed, found it running"):
            change(environment.cluster.nodes[1].disk)


def test_a_full_disk_takes_nothing_until_there_is_room(environment: MachineEnvironment, site: Site) -> None:
    can(environment, "disk-full")
    found = []

    def write() -> None:
        while not found:
            if append(environment, 100_000, sync=False) == "ENOSPC":
                found.append("ENOSPC")

    with writing(write), fire(site, "full-disk", (1,)) as fault:
        assert "in trouble: full" in fault.evidence
        assert wait_for(lambda: bool(found))
        assert order(environment.plans[0], do="append", file="new.log", bytes=100_000, sync=False) == "ENOSPC"
    assert found == ["ENOSPC"]
    assert append(environment, 100_000, sync=True) is None


@pytest.mark.parametrize(
    ("trouble", "request_", "answer"),
    [
        ("write-error", {"do": "append", "file": LOG, "bytes": 10, "sync": False}, "EIO"),
        ("fsync-error", {"do": "append", "file": LOG, "bytes": 10, "sync": True}, "EIO"),
        ("read-error", {"do": "read", "file": LOG}, "EIO"),
        ("error", {"do": "read", "file": LOG}, "EIO"),
    ],
)
def test_a_disk_fails_until_it_works_again(
    environment: MachineEnvironment, site: Site, trouble: str, request_: dict[str, object], answer: str
) -> None:
    can(environment, "disk-trouble")
    append(environment, 1000, sync=True)
    found = []

    def ask() -> None:
        while answer not in found:
            found.append(order(environment.plans[0], **request_))

    with writing(ask), fire(site, "disk-error", (1,), {"trouble": trouble}) as fault:
        assert f"in trouble: {trouble}" in fault.evidence
        assert wait_for(lambda: answer in found)  # the kernel's reading ahead may have met the trouble first
    assert answer in found
    assert order(environment.plans[0], **request_) != answer


def test_a_slow_disk_takes_its_time(environment: MachineEnvironment, site: Site) -> None:
    can(environment, "disk-trouble")
    took = []

    def write() -> None:
        while not took or max(took) < 0.15:
            began = time.monotonic()
            append(environment, 10, sync=True)
            took.append(time.monotonic() - began)

    with writing(write), fire(site, "slow-disk", (1,), {"trouble": "slow-fsync", "delay-ms": "200"}):
        assert wait_for(lambda: max(took, default=0) >= 0.15)


def test_a_stalled_disk_answers_when_it_is_over_and_not_before(environment: MachineEnvironment, site: Site) -> None:
    can(environment, "disk-trouble")
    answered = threading.Event()

    def write() -> None:
        append(environment, 10, sync=True)
        answered.set()

    with fire_while(site, "disk-stall", write) as fault:
        assert "in trouble: stall, met 1 times" in fault.evidence
        assert not answered.wait(0.2)
    assert answered.wait(5)


@pytest.mark.parametrize(("first", "answers"), [("lies", [None, None]), ("fails", ["EIO", None])])
def test_a_lying_disk_loses_what_it_reported_as_synced(
    environment: MachineEnvironment, site: Site, first: str, answers: list[str | None]
) -> None:
    can(environment, "disk-trouble")
    append(environment, 1000, sync=True)
    found: list[str | None] = []

    def write() -> None:
        found.extend(append(environment, 10, sync=True) for _ in range(2))

    with fire_while(site, "lying-fsync", write, {"first": first}) as fault:
        assert wait_for(lambda: len(found) == 2)
        assert environment.cluster.nodes[1].disk.files()[LOG] == 1020
    assert found == answers
    assert "node 1 lost 20 bytes after" in fault.healing
    assert environment.cluster.nodes[1].disk.files()[LOG] == 1000


def test_trouble_that_a_mechanism_cannot_make_is_refused(environment: MachineEnvironment, site: Site) -> None:
    if "disk-trouble" in environment.capabilities:
        pytest.skip("this mechanism can make all trouble")
    with pytest.raises(NodeError, match="stall"):
        environment.cluster.nodes[1].disk.make_trouble("stall")


def test_every_kind_of_disk_fault_is_shown_here_and_known_to_the_contract() -> None:
    offered = frozenset().union(*DISKS.values())
    here = {name for name, kind in KINDS.items() if kind.needs & offered} - {"page-cache-loss"}
    assert here == {
        "torn-page-cache-loss",
        "full-disk",
        "disk-error",
        "slow-disk",
        "disk-stall",
        "lying-fsync",
        "bit-flip",
        "file-truncation",
        "file-loss",
        "disk-loss",
        "disk-rollback",
    }
    assert {name for name, kind in KINDS.items() if kind.lossy} == LOSSY_KINDS
    assert not ENDING_KINDS & LOSSY_KINDS
    assert set(KINDS) > ENDING_KINDS
