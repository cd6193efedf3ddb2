"""The command line: every error is one line and a status, and starts nothing."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands import cli
from harness.doctor.remedies.machine_state import MachineState
from harness.environments.causes import Refused
from harness.environments.local import capabilities
from harness.environments.machine.feature_probes import ProbeResult
from harness.terminal.exits import ExitStatus, worst
from nemesis.faults import KINDS


def harrow(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    status = ended.value.code or 0
    assert isinstance(status, int)
    return status


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("run --fautls kill", "expected an option of harrow run, found '--fautls'; did you mean --faults? see"),
        ("run --faults flood", "faults: expected the name of a fault (see `harrow faults`), found 'flood'"),
        ("run --workload bank", "workload: expected one of log, register, queue, groups, admin, found 'bank'"),
        ("run --flaw gremlin", "flaw: expected the name of a flaw (see `harrow flaws`), found 'gremlin'"),
        ("run --generation K0", "K5, zk-v1, zk-v2, C1, C2, C3, found 'K0'"),
        ("run --environment moon", "environment: expected one of local, docker, ssh, existing, found 'moon'"),
        ("run --image broker:1", "image: expected the environment docker, found the environment local"),
        ("run --environment docker --node-memory 1", "node-memory: expected a whole number from 64 to "),
        ("run --brokers two", "'two' is not a valid integer"),
        ("run --acks 1 --idempotence", "idempotence: expected acks all, found acks 1"),
        ("run gone.toml", "'gone.toml' does not exist"),
        (
            "run --schedule gone.json",
            (
                "expected a file or the name of a schedule, one of cut-and-elected, cut-behind-new-leader, "
                "last-replica-standing, lossy-replica-first, found 'gone"
            ),
        ),
        ("run --seed", "requires an argument"),
        ("dance", "expected a command, one of run, suite, "),
        ("chekc", "found 'chekc'; did you mean check?"),
        (
            "cluster upp",
            "expected a command, one of add-brokers, down, logs, status, up, found 'upp'; did you mean up?",
        ),
        ("cluster", "expected one of add-brokers, down, logs, status, up, found no command"),
        ("fault kil", "expected the name of a fault (see `harrow faults`), found 'kil'; did you mean kill?"),
        ("fault kill --target leadr", "expected a role, one of leader, "),
        ("run --faults isolat", "found 'isolat'; did you mean isolate?"),
        ("run --flaw ack-before", "found 'ack-before'; did you mean ack-before-replication?"),
        ("run --client kafka_python", "found 'kafka_python'; did you mean kafka-python?"),
        (
            "run --environment dokcer",
            "expected one of local, docker, ssh, existing, found 'dokcer'; did you mean docker?",
        ),
        ("check", "expected a run in the store store, found none; name a run, or another --store"),
        ("check gone", "expected a history or a run, found no gone, here or in the store store"),
        ("check .", ".: expected the directory of a run, found no history in it"),
        ("report .", ".: expected the directory of a run, found no history in it"),
        ("report gone", "expected a run, found no gone, here or in the store store"),
        ("report --store there", "expected a run in the store there, found none"),
        ("replay", "expected a run in the store store, found none"),
        ("shrink", "expected a run in the store store, found none"),
        ("heal", "expected a store, found no directory store"),
        ("heal gone", "expected a run, found no gone, here or in the store store"),
        ("broker gone.properties", "'gone.properties' does not exist"),
        ("--loud", "expected an option of harrow, one of --debug, --version, "),
    ],
)
def test_a_usage_error_is_one_line_and_starts_nothing(
    arguments: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert harrow(*arguments.split()) == ExitStatus.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("harrow: ")
    assert output.err.count("\n") == 1
    assert expected in output.err
    assert not list(tmp_path.iterdir())


def test_a_schedule_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "schedule.json").write_text("{}")
    assert harrow("run", "--schedule", "schedule.json") == ExitStatus.USAGE
    assert "expected a schedule" in capsys.readouterr().err


def test_an_unknown_setting_in_a_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("colour = 'red'\n")
    assert harrow("run", "a.toml") == ExitStatus.USAGE
    assert "expected a setting (see `harrow run --help`), found 'colour'" in capsys.readouterr().err


def test_a_fault_that_the_environment_cannot_inject_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capabilities, "NETWORKS", {"namespaces": frozenset(), "proxies": frozenset()})
    assert harrow("run", "--network", "proxies", "--faults", "kill,isolate") == ExitStatus.USAGE
    output = capsys.readouterr().err
    assert "isolate needs network, which the environment local does not offer" in output
    assert output.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_stored_schedule_is_checked_against_the_environment_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capabilities, "NETWORKS", {"namespaces": frozenset(), "proxies": frozenset()})
    entry = (
        '{"entry": 1, "at_ms": 1, "kind": "isolate", "target": {"role": "leader"}, "duration_ms": 1, "parameters": {}}'
    )
    (tmp_path / "schedule.json").write_text(f'{{"entries": [{entry}]}}')
    assert harrow("run", "--network", "proxies", "--faults", "none", "--schedule", "schedule.json") == ExitStatus.USAGE
    assert "isolate needs network" in capsys.readouterr().err


def test_debug_shows_where_an_error_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("run", "--faults", "flood", "--debug") == ExitStatus.USAGE
    assert "Traceback" in capsys.readouterr().err


def test_an_unforeseen_error_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_settings: object) -> None:
        raise RuntimeError("the sky\nis falling")

    monkeypatch.setattr(cli.harrow, "main", fail)
    assert harrow("faults") == ExitStatus.FAILED
    output = capsys.readouterr().err
    assert output == "harrow: RuntimeError: the sky is falling; --debug shows the trace\n"


def test_without_java_one_line_says_so_before_anything_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("checkers.spark.java_found", lambda: None)
    assert harrow("run") == ExitStatus.USAGE
    assert "expected a Java for Spark" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("lacking", "arguments", "expected"),
    [
        (
            "docker",
            "run --environment docker",
            "expected a Docker engine for the environment docker, found: no Docker engine is installed (not here); ",
        ),
        ("docker", "cluster up --environment docker", "expected a Docker engine for the environment docker, found: "),
        (
            "qemu",
            "run --vms 3",
            "expected what VMs need, found that the program `qemu-system-x86_64` is not installed; ",
        ),
        ("paramiko", "run --vms 3", "expected what the environment ssh needs, found that the Python package paramiko "),
        (
            "paramiko",
            "run --inventory hosts",
            "expected what the environment ssh needs, found that the Python package ",
        ),
        ("java", "run", "expected a Java for Spark"),
        ("java", "sim --seeds 1:2 --histories seen", "expected a Java for Spark"),
        ("clients", "run --client aiokafka", "client aiokafka is not installed"),
    ],
)
def test_what_the_machine_lacks_is_one_line_and_status_2(
    lacking: str,
    arguments: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    if lacking == "docker":
        silent = ProbeResult(False, "not here", "docker", Refused(errno.ENOENT, "Docker engine"))
        monkeypatch.setattr("harness.environments.docker.capabilities.try_docker", lambda: silent)
        monkeypatch.setattr("harness.doctor.remedies.table._here", lambda: MachineState(root=True))
    if lacking == "qemu":
        monkeypatch.setattr("harness.environments.ssh.vms.probe.shutil.which", lambda _program, **_: None)
    if lacking == "paramiko":
        monkeypatch.setattr("harness.environments.ssh.capabilities.importlib.util.find_spec", lambda _name: None)
    if lacking == "java":
        monkeypatch.setattr("checkers.spark.java_found", lambda: None)
    if lacking == "clients":
        monkeypatch.setitem(sys.modules, "workloads.clients.aio", None)
    assert harrow(*arguments.split()) == ExitStatus.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"harrow: {expected}")
    assert output.err.count("\n") == 1
    assert "install" in output.err
    assert not list(tmp_path.iterdir())


def test_a_store_that_cannot_be_created_is_an_error_of_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert harrow("run", "--store", "file") == ExitStatus.USAGE
    output = capsys.readouterr().err
    assert "expected to make a directory in the store file" in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(("command", "names"), [("faults", list(KINDS)), ("flaws", ["unclean-election"])])
def test_lists_name_everything_with_one_line_each(
    command: str, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert harrow(command) == ExitStatus.VALID
    listed = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert set(names) <= {name for name, _ in listed}
    assert all(text for _, text in listed)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_teaches_by_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow(*arguments) == ExitStatus.VALID
    assert "harrow run --seed 7" in capsys.readouterr().out


@pytest.mark.parametrize("command", sorted(cli.harrow.entries))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow(command, "--help") == ExitStatus.VALID
    assert f"Usage: harrow {command}" in capsys.readouterr().out


def test_help_loads_nothing_heavy() -> None:
    heavy = ("pyspark", "pyarrow", "pandas", "kafka", "rich", "broker")
    code = f"import sys; import harness.commands.cli; print([name for name in {heavy} if name in sys.modules])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(cli.__file__).parents[1])
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        (["valid", "valid"], ExitStatus.VALID),
        (["valid", "unknown"], ExitStatus.UNKNOWN),
        (["unknown", "invalid", "valid"], ExitStatus.ANOMALIES),
        ([], ExitStatus.UNKNOWN),
    ],
)
def test_several_runs_have_the_status_of_the_worst(verdicts: list[str], status: ExitStatus) -> None:
    assert worst(verdicts) is status


def test_a_client_that_is_not_installed_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "workloads.clients.aio", None)
    assert harrow("run", "--client", "aiokafka") == ExitStatus.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install 'aiokafka>=0.12'" in line
