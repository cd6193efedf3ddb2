"""The process of a node: exit statuses, signals and output."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.broker.shell.shell_fakes import DEADLINE_S, free_port

PACKAGE = [sys.executable, "-m", "broker.shell"]

STUBBORN = """
import sys
from broker.core.ports.events import LogEntry
from broker.shell.main import run

class Stubborn:
    def __init__(self, *arguments): pass
    def handle(self, now_ms, event): return [LogEntry("info", type(event).__name__)]
    def is_ready(self): return True
    def broker_address(self, node_id): return None

sys.exit(run(sys.argv[1], Stubborn))
"""


def controller(directory, port, **changes):
    lines = {
        "process.roles": "controller",
        "node.id": "100",
        "controller.quorum.voters": f"100@127.0.0.1:{port}",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "log.dirs": str(directory / "data"),
        **changes,
    }
    file = directory / "node.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return file


def finished(*command):
    return subprocess.run(command, capture_output=True, check=False, text=True, timeout=DEADLINE_S * 3)


@pytest.fixture
def start(request):
    def started(*command):
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        request.addfinalizer(process.communicate)
        request.addfinalizer(process.kill)
        return process

    return started


def test_a_controller_gets_ready_and_stops_when_asked(tmp_path, start):
    process = start(*PACKAGE, str(controller(tmp_path, free_port())))
    assert process.stdout.readline() == "ready node=100\n"
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert "SIGTERM: controlled shutdown" in log
    for line in log.splitlines():
        assert re.match(r"\d\d:\d\d:\d\d\.\d{3} [A-Z]+ +\S", line)


def test_a_log_directory_of_another_cluster_is_refused_in_one_line(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("#\nversion=1\ncluster.id=yours\nnode.id=100\n")
    ended = finished(*PACKAGE, str(controller(tmp_path, free_port())))
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "expected" in line
    assert "to belong to cluster 'harrow', found cluster 'yours' in meta.properties: correct cluster.id" in line


def test_the_second_signal_ends_it_at_once(tmp_path, start):
    file = controller(tmp_path, free_port())
    process = start(sys.executable, "-c", STUBBORN, str(file))
    assert process.stdout.readline() == "ready node=100\n"
    process.send_signal(signal.SIGINT)
    while "StopRequested" not in process.stderr.readline():
        assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM
    assert time.monotonic() - began < DEADLINE_S


def test_impossible_settings_are_one_line_and_status_2(tmp_path):
    file = controller(tmp_path, 1, **{"num.partitions": "none"})
    done = finished(*PACKAGE, str(file))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "num.partitions: expected a whole number from 1" in done.stderr


def test_an_unknown_flaw_is_one_line_and_status_2(tmp_path):
    file = controller(tmp_path, free_port(), **{"harrow.flaws": "no-such-flaw"})
    done = finished(*PACKAGE, str(file))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "no-such-flaw" in done.stderr


def test_a_taken_port_is_one_line_and_status_4(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = finished(*PACKAGE, str(controller(tmp_path, taken.getsockname()[1])))
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "listeners: expected free addresses" in done.stderr


def test_a_log_directory_that_is_a_file_is_one_line_and_status_4(tmp_path):
    file = controller(tmp_path, free_port())
    (tmp_path / "data").write_text("not a directory")
    done = finished(*PACKAGE, str(file))
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "log.dirs: expected a directory to write to" in done.stderr


def test_a_controller_whose_first_log_directory_cannot_be_used_does_not_start(tmp_path):
    file = controller(tmp_path, free_port(), **{"log.dirs": f"{tmp_path}/data,{tmp_path}/more"})
    (tmp_path / "data").write_text("not a directory")
    done = finished(*PACKAGE, str(file))
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1


def test_a_broker_that_cannot_register_ends_with_one_line_and_status_4(tmp_path):
    listeners = f"CLIENT://127.0.0.1:{free_port()},BROKER://127.0.0.1:{free_port()}"
    broker = {"process.roles": "broker", "node.id": "1", "listeners": listeners}
    timeouts = {"initial.broker.registration.timeout.ms": "500", "request.timeout.ms": "200"}
    done = finished(*PACKAGE, str(controller(tmp_path, free_port(), **broker, **timeouts)))
    assert done.returncode == 4
    assert "could not register in 0.5 s: no active controller answered" in done.stderr.splitlines()[-1]


def test_an_admin_socket_that_cannot_be_bound_is_one_line_and_status_4(tmp_path):
    path = os.fspath(tmp_path / "none" / "admin")
    done = finished(*PACKAGE, str(controller(tmp_path, free_port(), **{"harrow.admin.socket": path})))
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "harrow.admin.socket: expected a path to bind" in done.stderr


def test_the_file_of_settings_must_be_named():
    done = finished(*PACKAGE)
    assert done.returncode == 2
    assert "usage" in done.stderr
