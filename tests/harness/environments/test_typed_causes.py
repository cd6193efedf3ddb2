"""Causes of failed probes and helpers reach the selection of remedies, as data."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

import harness
from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Cause, Missing, Refused, TooLittle, Unfit, cause_of, from_json, to_json
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.storage.fuse import FuseMount

CHECKOUT = Path(harness.__file__).parents[1]

_MOUNT_THAT_FAILS = """\
import os
class Operations: ...
class FUSE:
    def __init__(self, *_arguments, **_settings):
        os.write(2, b"fusermount3: mount failed: Operation not permitted\\n")
        raise RuntimeError(1)
"""


def test_an_error_of_the_kernel_says_its_number_and_what_it_was_about() -> None:
    assert cause_of(PermissionError(errno.EACCES, "no", "/dev/net/tun")) == Refused(errno.EACCES, "/dev/net/tun")
    assert Refused(errno.EACCES, "/dev/net/tun").name == "EACCES"
    assert cause_of(EnvironmentFailed("in words alone")) is None
    assert cause_of(ValueError("of another kind")) is None


def test_a_supervisors_refusal_has_its_cause() -> None:
    if os.geteuid() == 0:
        settings = SupervisorSettings(
            network=True, mounts=False, endpoints=(0, 1), namespaces=[(1, "/no/such/namespace")]
        )
        met = Refused(errno.ENOENT, "/no/such/namespace")
    else:
        settings = SupervisorSettings(network=False, mounts=True, endpoints=())
        met = Refused(errno.EPERM, "unshare(CLONE_NEWNS)")
    with pytest.raises(HelperRefused) as caught:
        Supervisor(settings, {})
    if isinstance(caught.value.cause, Refused) and caught.value.cause.what == "unshare(CLONE_NEWNET)":
        pytest.skip("this machine makes no network namespaces")
    assert caught.value.cause == met


def test_fuses_message_for_a_refused_mount_does_not_reach_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mfusepy.py").write_text(_MOUNT_THAT_FAILS)
    with pytest.raises(HelperRefused, match="fusermount3: mount failed: Operation not permitted") as caught:
        FuseMount(tmp_path / "backing", tmp_path / "disk", {"PYTHONPATH": str(tmp_path)})
    assert caught.value.cause == Refused(errno.EPERM, "mount of a FUSE file system")
    assert "fusermount3" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "cause", [None, Refused(errno.EPERM, "x"), Missing("program", "x"), TooLittle("disk", 2, 1, "x"), Unfit("x")]
)
def test_a_cause_survives_a_pipe(cause: Cause | None) -> None:
    assert from_json(json.loads(json.dumps(to_json(cause)))) == cause
