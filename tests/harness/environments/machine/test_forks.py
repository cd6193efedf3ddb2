"""Programs that are forks of a process which has imported them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.environments.machine.helpers import programs
from harness.environments.machine.kernel.process_identity import wait_until
from harness.environments.ssh.agent import fork_client

_PROGRAM = """
import json, os, sys
from harness.environments.machine.helpers import programs

IMPORTED_BY = os.getpid()


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def main():
    if sys.argv[1:] == ["once", "more"]:
        about = {"imported by": IMPORTED_BY, "leads": os.getsid(0) == os.getpid(), "word": os.environ["WORD"]}
        print(json.dumps({**about, "open": [number for number in range(100) if is_open(number)]}))
        sys.exit(7)
    print(sys.stdin.readline().strip())
    left, kept = os.pipe()
    words = [sys.executable, "-m", "greeter", "once", "more"]
    forked = programs.start(words, {**os.environ, "WORD": "said"}, (None, None, None), [kept])
    print(json.dumps([kept, forked.wait(20), type(forked).__name__]))
    started = programs.start([sys.executable, "-c", "import sys; sys.exit(5)"], os.environ, (None, None, None))
    print(json.dumps([started.wait(20), type(started).__name__]))
    slow = programs.start([sys.executable, "-m", "slow"], os.environ, (None, None, None))
    slow.kill()
    print(json.dumps(slow.wait(20)))
    raise ValueError("and that was that")
"""
_SLOW = "import time\n\ndef main():\n    time.sleep(60)\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "greeter.py").write_text(_PROGRAM)
    (tmp_path / "slow.py").write_text(_SLOW)
    socket = tmp_path / "server"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-m", "harness.environments.ssh.agent.fork_server", str(socket), "greeter", "slow"]
    running = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
    try:
        assert wait_until(socket.exists, 20.0)
        (tmp_path / "pid").write_text(str(running.pid))
        yield socket
    finally:
        running.kill()
        running.wait()


def test_a_program_is_a_fork_of_the_server_and_so_is_what_it_starts(server: Path) -> None:
    client = [sys.executable, "-IS", str(fork_client.__file__), str(server), "greeter"]
    done = subprocess.run(client, input="hello\n", capture_output=True, text=True, check=False, timeout=30)
    heard, about, forked, started, slow = done.stdout.splitlines()
    assert heard == "hello"
    kept, status, how = json.loads(forked)
    assert json.loads(about) == {
        "imported by": int((server.parent / "pid").read_text()),
        "leads": True,
        "word": "said",
        "open": [0, 1, 2, kept],
    }
    assert (status, how) == (7, "Forked")
    assert json.loads(started) == [5, "Popen"]
    assert json.loads(slow) == -9
    assert done.stderr.splitlines()[-1] == "ValueError: and that was that"
    assert done.returncode == 1


def test_a_client_ends_as_its_program_did_and_serves_others_meanwhile(server: Path) -> None:
    """SSH reports to the harness the exit status of an agent that is gone: 137 for one that ran out of memory."""
    client = [sys.executable, "-IS", str(fork_client.__file__), str(server)]
    running = int((server.parent / "pid").read_text())
    with subprocess.Popen([*client, "slow"]) as slow:
        assert wait_until(lambda: len(_children(running)) == 1, 20.0)
        done = subprocess.run([*client, "greeter"], input=b"hello\n", capture_output=True, check=False, timeout=30)
        assert done.returncode == 1
        assert slow.poll() is None
        (program,) = _children(running)
        os.kill(program, signal.SIGKILL)
        assert slow.wait(20) == 128 + signal.SIGKILL
    assert not _children(running), "the server reaps what it started"


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_waiting_for_a_fork_ends_at_the_timeout(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(_SLOW)
    script = (
        "import subprocess, os\n"
        "from harness.environments.machine.helpers import programs\n"
        "programs.make_ready(['slow'])\n"
        "child = programs.fork('slow', (), os.environ, (None, None, None))\n"
        "try:\n    child.wait(0.05)\n"
        "except subprocess.TimeoutExpired:\n    child.kill()\n"
        "print(child.wait(), child.returncode)\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == ["-9", "-9"]


def test_without_imported_programs_a_new_interpreter_starts() -> None:
    child = programs.start([sys.executable, "-m", "this"], os.environ, (None, subprocess.DEVNULL, None))
    assert isinstance(child, subprocess.Popen)
    assert child.wait(20) == 0
