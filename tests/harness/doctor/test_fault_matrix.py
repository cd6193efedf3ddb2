from __future__ import annotations

import errno
from pathlib import Path

import pytest

import harness
from harness.commands.cli import main
from harness.doctor import fault_matrix
from harness.doctor.remedies import table
from harness.doctor.remedies.machine_state import MachineState
from harness.environments.causes import Refused
from harness.environments.docker import capabilities as docker
from harness.environments.local import capabilities
from harness.environments.machine import mechanisms
from harness.environments.machine.feature_probes import ProbeResult
from harness.environments.ssh import capabilities as ssh
from nemesis.faults import KINDS

DOCUMENT = Path(harness.__file__).parents[1] / "docs" / "reference" / "faults.md"


def test_the_matrix_in_the_documentation_is_the_one_that_is_printed() -> None:
    assert fault_matrix.markdown() in DOCUMENT.read_text()


@pytest.mark.parametrize(
    ("kind", "mechanisms"),
    [
        ("kill", "always"),
        ("slow-network", "namespaces"),
        ("isolate", "namespaces, proxies"),
        ("disk-stall", "fuse"),
        ("full-disk", "ext4, fuse"),
        ("bit-flip", "ext4, fuse, page-cache"),
        ("clock-jump", "C compiler"),
    ],
)
def test_a_fault_has_the_mechanisms_that_can_inject_it(kind: str, mechanisms: str) -> None:
    assert fault_matrix.cell(KINDS[kind], capabilities) == mechanisms


def test_containers_offer_what_processes_do_but_proxies() -> None:
    for kind in KINDS.values():
        offered = fault_matrix.cell(kind, docker)
        assert offered == fault_matrix.cell(kind, capabilities).replace(", proxies", "")


@pytest.mark.parametrize(
    ("kind", "mechanisms"),
    [
        ("kill", "always"),
        ("isolate", "nftables, iptables"),
        ("slow-network", "netem"),
        ("page-cache-loss", "power-cut, ext4, fuse"),
        ("disk-stall", "fuse"),
        ("clock-jump", "VM, C compiler"),
    ],
)
def test_a_far_machine_has_mechanisms_of_its_own(kind: str, mechanisms: str) -> None:
    assert fault_matrix.cell(KINDS[kind], ssh.CAPABILITIES_OF_VMS) == mechanisms


def test_what_this_machine_cannot_do_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for probe in ("try_namespaces", "try_shaping", "try_ext4", "try_fuse", "try_clock"):
        monkeypatch.setattr(capabilities, probe, lambda: ProbeResult(False, "not on this machine"))
    monkeypatch.setattr(docker, "try_docker", lambda: ProbeResult(False, "no Docker engine answers"))
    monkeypatch.setattr(ssh, "try_vms", lambda: ProbeResult(False, "no QEMU"))
    with pytest.raises(SystemExit):
        main(["doctor", "--faults"])
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["local", "docker", "ssh"]
    table = {line.split()[0]: line.split()[1:] for line in lines[: len(KINDS)]}
    assert set(table) == set(KINDS)
    assert table["kill"] == ["yes", "always", "no", "-", "no", "-"]
    assert table["isolate"] == ["yes", "namespaces,", "proxies", "no", "-", "no", "-"]
    assert table["slow-network"] == ["no", "-", "no", "-", "no", "-"]
    reasons = lines[len(KINDS) :]
    assert "no fault in ssh: VMs: no QEMU" in reasons
    assert "no fault in docker: no Docker engine answers" in reasons
    assert any("disk-stall" in line and line.endswith("in local: fuse: not on this machine") for line in reasons)


def test_a_fault_that_the_mechanism_cannot_inject_is_one_line_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "try_fuse", lambda: ProbeResult(True, "works, and another was asked for"))
    with pytest.raises(SystemExit) as ended:
        main(["run", "--faults", "disk-stall", "--page-cache", "page-cache", "--store", str(tmp_path / "store")])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("harrow: faults: disk-stall needs disk-trouble, which the environment local does not offer")
    assert not (tmp_path / "store").exists()


def test_a_fault_that_the_machine_cannot_inject_is_refused_with_cause_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = ProbeResult(False, "Permission denied", "shaping", Refused(errno.EACCES, "/dev/net/tun"))
    monkeypatch.setattr(capabilities, "try_shaping", lambda: closed)
    monkeypatch.setattr(mechanisms, "try_namespaces", lambda: ProbeResult(True, "works"))
    monkeypatch.setattr(table, "_here", MachineState)
    with pytest.raises(SystemExit) as ended:
        main(["run", "--faults", "slow-network", "--page-cache", "page-cache", "--store", str(tmp_path / "store")])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "harrow: faults: slow-network needs network-shaping, which this machine lacks: namespaces: this user may "
        "not open `/dev/net/tun` (Permission denied); sudo chmod a+rw /dev/net/tun; or leave it out of --faults"
    )
    assert not (tmp_path / "store").exists()


def test_a_broker_is_only_removed_where_another_can_take_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--faults", "broker-removal", "--store", str(tmp_path / "store")])
    assert ended.value.code == 2
    assert "broker-removal needs more brokers than replicas, found 3 brokers" in capsys.readouterr().err


def test_a_disk_is_only_lost_where_a_broker_is_no_controller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--faults", "disk-loss", "--controllers", "3", "--combined", "--store", str(tmp_path / "store")])
    assert ended.value.code == 2
    expected = "disk-loss needs a broker that is no controller, too, found 3 brokers of which 3 are"
    assert expected in capsys.readouterr().err
