from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.doctor.remedies import machine_state
from harness.doctor.remedies.machine_state import CAP_SYS_ADMIN, inspect_machine


def test_this_machine_is_what_the_kernel_says_it_is() -> None:
    found = inspect_machine()
    assert found.root == (os.geteuid() == 0)
    assert found.python == sys.executable
    users_max = Path("/proc/sys/user/max_user_namespaces")
    if users_max.exists():
        assert found.setting("user.max_user_namespaces") == int(users_max.read_text())
    assert found.setting("kernel.no_such_setting") is None
    assert "null" not in found.drivers  # no device of the kind misc


def test_the_command_of_this_interpreter_can_be_run_from_anywhere(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{inspect_machine().harrow} --version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "version" in done.stdout


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: capabilities are dropped")
def test_a_process_without_capabilities_knows_that_root_has_none() -> None:
    program = (
        "from harness.doctor.remedies.machine_state import inspect_machine; here = inspect_machine(); "
        "print(here.confined, here.no_new_privileges)"
    )
    command = ["setpriv", "--bounding-set", "-sys_admin", "--no-new-privs", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr
    if inspect_machine().bounding & CAP_SYS_ADMIN:
        assert not inspect_machine().confined


def test_a_program_gains_root_s_rights_by_its_owner_and_its_mode(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.touch(mode=0o755)
    assert not machine_state._gains(str(program))
    assert not machine_state._gains(None)
    program.chmod(0o4755)
    assert machine_state._gains(str(program)) == (os.geteuid() == 0)
