"""The inventory, and machines that cannot be nodes: one line, before anything is changed."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from common.names import SpecError
from harness.commands.cli import main
from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.connection.facts import examine
from harness.environments.ssh.connection.hosts import SshHost, host_from_json, hosts_for_nodes, load_inventory
from harness.environments.ssh.connection.ssh import Answer, SshConnection
from harness.store.heal import heal
from harness.store.journal import Journal


def inventory(place: Path, text: str) -> Path:
    (place / "key").touch()
    (place / "hosts.toml").write_text(text)
    return place / "hosts.toml"


def test_without_the_library_of_ssh_the_reason_is_one_line(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, '[[host]]\naddress = "a.example"\n')
    lines = (
        "import sys",
        "sys.modules['paramiko'] = None",  # as if it were not installed
        "from harness.commands.cli import main",
        f"main(['run', '--environment', 'ssh', '--inventory', {str(hosts)!r}, '--store', {str(tmp_path / 'store')!r}])",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "paramiko is not installed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_setting_of_all_hosts_can_be_overridden_by_each(tmp_path: Path) -> None:
    one, two = load_inventory(
        inventory(
            tmp_path,
            'user = "admin"\nkey = "key"\nsudo = true\n'
            '[[host]]\naddress = "a.example:2222"\npeer-address = "10.0.0.1"\n'
            '[[host]]\naddress = "b.example"\nuser = "root"\nsudo = false\n',
        )
    )
    assert (one.name, one.address, one.port, one.user, one.sudo) == ("a.example:2222", "a.example", 2222, "admin", True)
    assert (one.peer, one.key) == ("10.0.0.1", tmp_path / "key")
    assert (two.address, two.port, two.user, two.sudo, two.peer) == ("b.example", 22, "root", False, "b.example")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "at least one [[host]]"),
        ("[[host]]\n", "expected an address of each host"),
        ('[[host]]\naddress = "a"\n[[host]]\naddress = "a"\n', "found a twice"),
        ('[[host]]\naddress = "a"\nkey = "nowhere"\n', "key: expected a file, found none at"),
        ('[[host]]\naddress = "a"\nsudo = "yes"\n', "sudo: expected true or false"),
        ('[[host]]\naddress = "a"\ncolour = "red"\n', "expected a setting of a host"),
        ('[[host]]\naddress = "a"\nport = 70000\n', "a number from 1 to 65535"),
        ('[[host]]\naddress = "a"\ndirectory = "here"\n', "directory: expected an absolute path"),
        ("[[host]\n", "expected TOML"),
    ],
)
def test_a_bad_inventory_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(SpecError) as raised:
        load_inventory(inventory(tmp_path, text))
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_node_needs_a_host_of_its_own(tmp_path: Path) -> None:
    file = inventory(tmp_path, '[[host]]\naddress = "a"\n[[host]]\naddress = "b"\n')
    assert [host.address for host in hosts_for_nodes(file, 2)] == ["a", "b"]
    with pytest.raises(SpecError, match=r"expected a host for each of 4 nodes in .*, found 2"):
        hosts_for_nodes(file, 4)


def test_a_host_outlives_the_journal(tmp_path: Path) -> None:
    host = SshHost("a", "a.example", 2222, "admin", tmp_path / "key", sudo=True)
    assert host_from_json(host.to_json()) == host


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments])
    (line,) = capsys.readouterr().err.splitlines()
    return int(str(ended.value.code)), line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--environment", "ssh"], "for ssh either --inventory or --vms, found neither"),
        (["--vms", "3", "--environment", "local"], "expected ssh for vms, found local"),
        (["--vms", "3", "--brokers", "4"], "as many as brokers"),
        (["--page-cache", "power-cut"], "power-cut with --vms only"),
        (
            ["--vms", "3", "--system", "noida-db"],
            "expected Harrow's own broker, the only system that Harrow runs in VMs, found",
        ),
        (["--inventory", "nowhere.toml"], "nowhere.toml: No such file or directory"),
    ],
)
def test_what_cannot_be_is_a_misuse_and_nothing_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    status, message = run([*arguments, "--store", str(tmp_path / "store")], capsys)
    assert status == 2
    assert line in message
    assert not (tmp_path / "store").exists()


def test_a_host_that_does_not_answer_is_named_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        hosts = "".join(f'[[host]]\naddress = "127.0.0.1:{port}"\npeer-address = "10.9.9.{n}"\n' for n in range(4))
        status, message = run(
            ["--inventory", str(inventory(tmp_path, hosts)), "--store", str(tmp_path / "store")], capsys
        )
    assert status == 2
    assert message.startswith(f"harrow: expected host 127.0.0.1:{port} to answer SSH at 127.0.0.1:{port}, found: ")
    assert not (tmp_path / "store").exists()


def test_a_host_that_cannot_be_healed_is_reported_and_the_rest_is_healed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.record("run", token="0123456789abcdef", sockets=str(tmp_path / "sockets"))
    (tmp_path / "sockets").mkdir()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = SshHost("far", "127.0.0.1", closed.getsockname()[1])
        journal.record("ssh", node=1, **host.to_json())
        lines = heal(tmp_path)
    assert "expected host far to answer SSH at 127.0.0.1" in lines[0]
    assert lines[1].endswith("sockets deleted")


class FakeConnection(SshConnection):
    """A machine with answers given by the test."""

    def __init__(self, answer: Answer, **settings: Any) -> None:
        self.host = SshHost("far", "far.example", **settings)
        self._answer = answer

    def run(self, command: str, data: bytes = b"", *, as_root: bool = False, timeout_s: float = 1.0) -> Answer:
        return self._answer


GOOD = "ends 10.0.0.9 5000 10.0.0.1 22\nuser 0\npython 3 12 x86_64\nhas nft\nhas ext4\npackage 0123\n"


def test_facts_are_read_from_a_machines_answer() -> None:
    facts = examine(FakeConnection(Answer(0, GOOD, "")))
    assert (facts.python, facts.machine, facts.has) == ((3, 12), "x86_64", {"nft", "ext4"})
    assert (facts.packages, facts.harness_address, facts.ssh_port) == ({"0123"}, "10.0.0.9", 22)


@pytest.mark.parametrize(
    ("answer", "settings", "line"),
    [
        (Answer(1, "", "sudo: a password is required"), {"sudo": True}, "by sudo without a password, found: sudo: a"),
        (Answer(127, "", "sh: 1: sudo: not found"), {"sudo": True}, "found: sh: 1: sudo: not found"),
        (Answer(0, GOOD.replace("user 0", "user 1001"), ""), {}, "expected to be root on host far, found user root"),
        (
            Answer(0, GOOD.replace("3 12", "3 9"), ""),
            {},
            "3.11 or newer as python3 on host far, found 3.9",
        ),
        (
            Answer(0, GOOD.replace(" 3 12 x86_64", ""), ""),
            {},
            "Python 3.11 as python3 on host far, found none",
        ),
    ],
)
def test_a_machine_that_cannot_be_a_node_is_refused_with_the_reason(
    answer: Answer, settings: dict[str, Any], line: str
) -> None:
    with pytest.raises(EnvironmentFailed) as raised:
        examine(FakeConnection(answer, **settings))
    assert line in str(raised.value)
