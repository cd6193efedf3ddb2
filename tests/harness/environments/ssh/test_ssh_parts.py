"""Parts of the environment `ssh` that need no machine: archives, rules, queues, RPC."""

from __future__ import annotations

import gzip
import io
import json
import os
import queue
import select
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.agent.firewall import Firewall, FirewallRules
from harness.environments.ssh.agent.netem import arguments
from harness.environments.ssh.connection.installation import COMPILED_PLACE, keep, package
from harness.environments.ssh.connection.rpc import RpcServer
from harness.environments.ssh.vms import guest
from harness.environments.ssh.vms.image import ArchiveMember, cpio_archive
from harness.environments.ssh.vms.qmp import Qmp
from nemesis.capabilities.shapes import Shape


def test_the_package_has_what_a_node_needs_and_no_more() -> None:
    with tarfile.open(fileobj=io.BytesIO(package().archive)) as members:
        names = set(members.getnames())
    assert {"broker/shell/main.py", "harness/environments/ssh/agent/agent.py", "kafka/__init__.py"} <= names
    assert {name.split("/")[0] for name in names} <= {
        *(
            "broker",
            "common",
            "nemesis",
            "history",
            "harness",
            "kafka",
            "kazoo",
            "mfusepy.py",
            "__pycache__",
            COMPILED_PLACE,
        ),
    }
    assert any(name.startswith("broker/shell/__pycache__/main.") for name in names)
    assert not any(name.startswith(("harness/commands", "harness/environments/docker/")) for name in names)


@pytest.mark.parametrize(
    "program", ["harness.environments.ssh.agent.agent", "harness.systems.sidecar.serve", "broker.shell.main"]
)
def test_a_python_without_packages_can_import_what_runs_on_a_host(program: str, tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(package().archive)) as archive:
        archive.extraction_filter = lambda member, _path: member
        archive.extractall(tmp_path)
    script = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(tmp_path / COMPILED_PLACE)!r}]; import {program}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (Shape(), ""),
        (Shape(delay_ms=50), "delay 50ms"),
        (Shape(delay_ms=50, jitter_ms=10), "delay 50ms 10ms rate 10gbit"),
        (Shape(loss_percent=30), "loss 30%"),
        (Shape(duplicate_percent=10), "duplicate 10%"),
        (Shape(reorder_percent=25), "delay 20ms reorder 75%"),
        (Shape(kbit_per_s=200), "rate 200kbit limit 17"),
        (Shape(reset=True), ""),
    ],
)
def test_a_shape_has_these_netem_arguments(shape: Shape, expected: str) -> None:
    assert arguments(shape) == expected


def test_rules_of_either_filter_spare_the_control_channel_before_all_others() -> None:
    rules = FirewallRules(not_from=("10.0.0.2",), not_to=("10.0.0.9",), reset_from=("10.0.0.3",))
    nft = Firewall("nft", "t", "10.0.0.9", 22)._as_nft(rules)
    assert nft.index("ip daddr 10.0.0.9 tcp sport 22 accept") < nft.index("ip daddr { 10.0.0.9 } drop")
    assert "ip saddr { 10.0.0.3 } tcp flags & rst == 0 counter reject with tcp reset" in nft
    lines = Firewall("iptables", "t", "10.0.0.9", 22)._as_iptables(rules)
    spared = lines.index("-t raw -A t-output -d 10.0.0.9 -p tcp --sport 22 -j RETURN")
    assert spared < lines.index("-t raw -A t-output -d 10.0.0.9 -j DROP") < lines.index("-t raw -I OUTPUT -j t-output")
    assert "-t raw -A t-prerouting -s 10.0.0.2 -j DROP" in lines


def test_what_is_kept_is_seen_as_a_whole_while_others_write_it(tmp_path: Path) -> None:
    file, size = tmp_path / "cache" / "kept", 1 << 20
    keep(file, bytes(size))
    done = threading.Event()

    def write() -> None:
        for _ in range(100):
            keep(file, bytes(size))
        done.set()

    with ThreadPoolExecutor(1) as writer:
        writing = writer.submit(write)
        seen = set()
        while not done.is_set() and not writing.done():
            seen.add(file.stat().st_size)
        writing.result()
    assert seen == {size}
    assert [one.name for one in file.parent.iterdir()] == ["kept"]


def test_a_first_file_system_is_packed_as_the_kernel_wants_it() -> None:
    packed = gzip.decompress(cpio_archive([ArchiveMember("bin", 0o040755), ArchiveMember("bin/sh", 0o100755, b"#!")]))
    assert packed.count(b"070701") == 3
    assert packed[6:14] == b"00000001"
    assert packed[110:114] == b"bin\0"
    assert packed.endswith(b"TRAILER!!!\0" + bytes(-(110 + 11) % 4))
    assert len(packed) % 4 == 0


def test_requests_are_answered_in_any_order_and_errors_are_answers() -> None:
    theirs, ours = os.pipe()
    answers, target = os.pipe()
    listener = RpcServer(os.fdopen(theirs, "rb"), target)
    release = threading.Event()

    def answer(request: dict[str, object]) -> object:
        if request["do"] == "wait":
            release.wait(10)
        if request["do"] == "fail":
            raise ValueError("it cannot be done")
        return request["do"]

    os.write(ours, b'{"token": "x"}\n{"id": 1, "do": "wait"}\n{"id": 2, "do": "go"}\n{"id": 3, "do": "fail"}\n')
    assert listener.first() == {"token": "x"}
    serving = threading.Thread(target=listener.serve, args=(answer, (ValueError,), lambda _: False))
    serving.start()
    with os.fdopen(answers, "rb") as lines:
        early = sorted((json.loads(lines.readline()) for _ in range(2)), key=lambda said: said["id"])
        assert early == [{"id": 2, "result": "go"}, {"id": 3, "error": "it cannot be done"}]
        release.set()
        assert json.loads(lines.readline()) == {"id": 1, "result": "wait"}
        os.close(ours)
        serving.join(10)
        assert not serving.is_alive()
    os.close(target)


def test_what_is_answered_after_the_end_goes_nowhere() -> None:
    theirs, ours = os.pipe()
    answers, target = os.pipe()
    release = threading.Event()
    answering: queue.Queue[threading.Thread] = queue.Queue()

    def answer(_: object) -> None:
        answering.put(threading.current_thread())
        release.wait(10)

    listener = RpcServer(os.fdopen(theirs, "rb"), target)
    os.write(ours, b'{"id": 1, "do": "wait"}\n')
    os.close(ours)
    listener.serve(answer, (), lambda _: False)
    thread = answering.get(timeout=10)
    release.set()
    thread.join(10)
    assert not thread.is_alive()
    listener.push("news")
    os.close(target)
    with os.fdopen(answers, "rb") as lines:
        assert lines.read() == b""


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        ("[ -e $place/disk ]", "found it\n"),
        ('for one in $place/*; do [ $one = $place/disk ] && d=$one; done; [ -n "$d" ]', "found it\n"),
        ("[ -e $place/other ]", "no sign of the disk within 0.1 s\n"),
    ],
)
def test_a_guest_waits_for_what_was_plugged_in_and_says_what_did_not_come(
    look: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "_TRIES", 2)
    (tmp_path / "disk").touch()
    line = f"{guest.wait_command(look, 'the disk')} && echo found it"
    done = subprocess.run(
        ["sh", "-c", line], check=False, env={**os.environ, "place": str(tmp_path)}, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == (expected, 0 if "found" in expected else 1)


@pytest.mark.parametrize("said", [None, b"", b'{"QMP": {}}\r\n', b'{"QMP": {}}\r\n{"retu'])
def test_a_qemu_that_ends_after_it_began_to_listen_is_an_error_of_the_environment(
    said: bytes | None, tmp_path: Path
) -> None:
    """QEMU listens before it has created its machine; if that fails, it may end before it accepts a connection."""
    path = tmp_path / "qmp"
    with ThreadPoolExecutor(1) as caller:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen()
            calling = caller.submit(Qmp, path, lambda: True, 20.0)
            assert select.select([listener], [], [], 20.0)[0]
            if said is not None:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(said)
        with pytest.raises(EnvironmentFailed, match="expected QEMU to"):
            calling.result(20.0)


_PROBE = """
import socket
from harness.environments.ssh.connection.installation import keep
from harness.environments.ssh.agent.firewall import Firewall, FirewallRules

def passes():
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    receiver.settimeout(0.2)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind(("127.0.0.9", 0))
    try:
        sender.sendto(b"x", receiver.getsockname())
        return receiver.recv(1) == b"x"
    except (PermissionError, TimeoutError):
        return False

def dials(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1, ("127.0.0.9", 0)).close()
    except OSError as error:
        return type(error).__name__
    return "connected"

firewall = Firewall("KIND", "probe", "127.0.0.9", 2222)
servers = [socket.create_server(("127.0.0.1", port)) for port in (2222, 3333)]
seen = [passes()]
firewall.set(FirewallRules(not_from=("127.0.0.9",)))
seen += [passes(), dials(2222)]
firewall.set(FirewallRules(reset_from=("127.0.0.9",)))
seen += [passes(), dials(3333), firewall.resets() >= 1]
firewall.clear()
firewall.clear()
seen += [passes(), dials(3333)]
print(seen)
"""


@pytest.mark.ssh
@pytest.mark.root
@pytest.mark.parametrize(("kind", "program"), [("nft", "nft"), ("iptables", "iptables")])
def test_either_packet_filter_drops_resets_counts_and_forgets(kind: str, program: str) -> None:
    if os.geteuid() != 0 or shutil.which(program, path="/usr/sbin:/usr/bin:/sbin") is None:
        pytest.skip(f"{program} is wanted, and root")
    script = f"ip link set lo up; exec {sys.executable} -c '{_PROBE.replace('KIND', kind)}'"
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout.strip() == str(
        [True, False, "connected", True, "ConnectionRefusedError", True, True, "connected"]
    )
