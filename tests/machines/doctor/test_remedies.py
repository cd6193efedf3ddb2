from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

import pytest

from harness.doctor.examination import NEEDED
from harness.doctor.remedies.table import TABLE
from tests.machines.doctor.causes import CONFIG_KEYS, ELSEWHERE, VISITS, Visit
from tests.machines.doctor.installation import CHECKOUT, PACKAGES, installation
from tests.machines.doctor.visit import about
from tests.machines.doctor.vm import IN_VM, asking_for_one, reports
from tests.machines.machine import in_machine

HERE = Path(__file__).parent


def has_engine() -> bool:
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def marks(visit: Visit) -> list[pytest.MarkDecorator]:
    in_container = visit.machine.container is not None
    return [pytest.mark.machines, pytest.mark.slow, *([pytest.mark.docker] if in_container else [])]


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources that every user may read, with their compiled forms."""
    place = tmp_path_factory.mktemp("sources")
    for package in PACKAGES:
        shutil.copytree(CHECKOUT / package, place / package)
    # Users of the machines cannot keep what they compile, and on an emulated processor that takes longest.
    compileall.compile_dir(place, quiet=2, force=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    for parent in (place, *place.parents):
        if parent.stat().st_uid == os.geteuid():
            parent.chmod(parent.stat().st_mode | 0o055)
    return place


def report_of(visit: Visit, sources: Path, directory: Path) -> dict[str, Any]:
    """Visit a machine; what doctor said there, and what was done about it."""
    out = directory / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    out.chmod(0o777)
    config = {name: value for name, value in asdict(visit).items() if name in CONFIG_KEYS}
    (out / "config.json").write_text(json.dumps(config))
    shared = {out: "/out", HERE: "/doctor", sources: "/harrow"}
    command = [*visit.wrap, "python3", "/doctor/visit.py", "/out/config.json", "/out/report.json"]
    over = installation()
    if visit.machine.container is not None:
        shared[over / "venv"] = "/venv"
    done = in_machine(visit.machine, shared, command, over=(over,))
    assert done.returncode == 0, done.stderr[-4000:]
    report: dict[str, Any] = json.loads((out / "report.json").read_text())
    return report


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "visit", [pytest.param(visit, marks=marks(visit), id=f"{visit.name}-{visit.user}") for visit in VISITS]
)
def test_doctor_names_the_cause_and_its_remedy_helps(visit: Visit, sources: Path, tmp_path: Path) -> None:
    need_tools()
    if visit.machine.container is not None and not has_engine():
        pytest.skip("a Docker engine that answers is needed")
    report = report_of(visit, sources, tmp_path)
    otherwise = None
    if not remedy_of(report, visit)["command"] and visit.otherwise is not None:
        otherwise = report_of(replace(visit, **visit.otherwise), sources, tmp_path)
    judge(visit, report, otherwise)
    needed = visit.capability in NEEDED
    assert report["said"][0]["status"] == (4 if needed else 0), report["said"][0]["default_job"]
    if needed:
        last = (otherwise or report)["said"][-1]
        assert last["status"] == 0, last["default_job"]


@pytest.fixture(scope="session")
def seen_in_vm(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    need_tools()
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("QEMU is needed: apt-get install qemu-system-x86")
    return reports([asking_for_one(visit) for visit in IN_VM], sources, tmp_path_factory.mktemp("vm"))


@pytest.mark.machines
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("visit", [pytest.param(visit, id=visit.name) for visit in IN_VM])
def test_doctor_names_what_a_kernel_lacks_and_its_remedy_helps(
    visit: Visit, seen_in_vm: Mapping[str, dict[str, Any]]
) -> None:
    judge(visit, seen_in_vm[visit.name], None)


def judge(visit: Visit, report: dict[str, Any], otherwise: dict[str, Any] | None) -> None:
    """The cause is the one that the machine has; a command helps there, and a sentence where it is obeyed."""
    found = about(report["said"][0], visit.capability)
    assert not found["available"]
    assert found["cause"] == visit.cause, json.dumps(found)
    if found["remedy"]["command"]:
        assert report["carried_out"][0]["status"] == 0, json.dumps(report["carried_out"])
        last = about(report["said"][-1], visit.capability)
        assert last["available"], json.dumps([last, report["carried_out"]])
    elif otherwise is not None:
        last = about(otherwise["said"][-1], visit.capability)
        assert last["available"], json.dumps([last, otherwise["carried_out"]])


def remedy_of(report: dict[str, Any], visit: Visit) -> dict[str, Any]:
    """The remedy that doctor named first."""
    return about(report["said"][0], visit.capability)["remedy"] or {"command": False}


def need_tools() -> None:
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("making reduced machines needs root and mmdebstrap")


def test_every_cause_has_a_machine_or_a_reason_why_not() -> None:
    known = {f"{capability}/{row.name}" for capability, rows in TABLE.items() for row in rows}
    made = {visit.name for visit in (*VISITS, *IN_VM)}
    assert known == made | set(ELSEWHERE)
    assert not made & set(ELSEWHERE)
