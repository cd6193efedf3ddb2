"""The process cluster of the tests: none of its processes outlives the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.local_cluster import ROOT, eventually

MAKER = """
import subprocess, sys
from tests.support.local_cluster import Watchman

watchman = Watchman()
node = subprocess.Popen(["sleep", "60"], process_group=watchman.process_group)
print(node.pid, watchman.process_group, flush=True)
sys.stdin.read()
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nodes_end_with_the_process_that_made_them(number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", MAKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as maker:
        pids = [int(word) for word in maker.stdout.readline().split()]
        assert all(is_running(pid) for pid in pids)
        maker.send_signal(number)
        maker.wait()
        eventually(lambda: not any(is_running(pid) for pid in pids), 5, "nodes and watchman are gone")
