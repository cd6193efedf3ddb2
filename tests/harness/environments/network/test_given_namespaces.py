"""Endpoints that bring a network namespace of their own, as containers do."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.machine.kernel.process_identity import wait_until

pytestmark = pytest.mark.root


@pytest.fixture
def guest() -> Iterator[subprocess.Popen[bytes]]:
    """A process in a network namespace that another program created."""
    with subprocess.Popen(["unshare", "--net", "sleep", "600"]) as process:
        own = Path("/proc/self/ns/net").readlink()
        assert wait_until(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != own, 5)
        yield process
        process.kill()


def _supervisor(namespace: str) -> Supervisor:
    return Supervisor(SupervisorSettings(network=True, mounts=False, endpoints=(0, 1), namespaces=[(1, namespace)]), {})


def test_it_is_wired_to_the_others_and_its_links_can_be_cut(guest: subprocess.Popen[bytes]) -> None:
    supervisor = _supervisor(f"/proc/{guest.pid}/ns/net")
    try:
        seen = []
        for links in ([], [(0, 1)], []):
            supervisor.ask("block", links=links)
            seen.append(supervisor.ask("probe", links=[(0, 1), (1, 0)], timeout_s=0.1))
    finally:
        supervisor.close()
    assert seen == [[True, True], [False, True], [True, True]]


def test_only_its_processes_end_with_the_supervisor(guest: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(["unshare", "--net", "sleep", "600"]) as outsider:
        _supervisor(f"/proc/{guest.pid}/ns/net").close()
        assert guest.wait(10) == -signal.SIGKILL
        assert outsider.poll() is None
        outsider.kill()


def test_the_machines_own_namespace_is_refused() -> None:
    with pytest.raises(HelperRefused, match="expected another namespace than the machine's own"):
        _supervisor(f"/proc/{os.getpid()}/ns/net")
