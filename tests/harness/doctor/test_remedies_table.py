from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness.commands.cli import main
from harness.doctor.remedies import table
from harness.doctor.remedies.machine_state import ALL_CAPABILITIES, CAP_SYS_ADMIN, MachineState
from harness.doctor.remedies.rows import RemedyRow, first
from harness.doctor.remedies.table import ALSO, TABLE, TITLES, explain
from harness.environments.causes import Missing, NotRoot, Refused

DOCUMENT = Path(harness.__file__).parents[1] / "docs" / "guide" / "doctor.md"
ROWS = [
    pytest.param(capability, row, id=f"{capability}/{row.name}") for capability, rows in TABLE.items() for row in rows
]
UNSHARE_USER, UNSHARE_NETWORK = "unshare(CLONE_NEWUSER)", "unshare(CLONE_NEWNET)"
USERS_MAX = "user.max_user_namespaces"
CONFINED = ALL_CAPABILITIES & ~CAP_SYS_ADMIN


@pytest.mark.parametrize(("capability", "row"), ROWS)
def test_no_row_hides_another(capability: str, row: RemedyRow) -> None:
    assert first(TABLE[capability], row.example, row.here) is row


@pytest.mark.parametrize(("capability", "row"), ROWS)
def test_a_remedy_is_one_line_that_says_what_to_do(capability: str, row: RemedyRow) -> None:
    for here in (row.here, replace(row.here, root=True)):
        remedy = row.choose(row.example, here)
        assert remedy.text
        assert "\n" not in remedy.text
        if remedy.command and here.root:
            assert not remedy.text.startswith(("sudo ", "su "))


def test_causes_have_one_name_each_and_capabilities_a_title() -> None:
    for capability, rows in TABLE.items():
        names = [row.name for row in rows]
        assert sorted(set(names)) == sorted(names)
        assert capability in TITLES
    assert set(ALSO) <= set(TABLE)
    assert {other for others in ALSO.values() for other in others} <= set(TABLE)


def test_the_table_in_the_documentation_is_the_one_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--remedies", "--markdown"])
    assert not ended.value.code
    printed = capsys.readouterr().out.strip()
    assert printed == table.markdown()
    assert printed in DOCUMENT.read_text()


def test_every_cause_is_named_on_a_terminal() -> None:
    text = table.plain()
    for capability, rows in TABLE.items():
        assert TITLES[capability] in text
        assert all(f"({row.name})" in text for row in rows)


@pytest.mark.parametrize(
    ("capability", "cause", "here", "remedy"),
    [
        # A plain user on Debian 12 as installed: user namespaces work, both devices are closed.
        ("shaping", Refused(errno.EACCES, "/dev/net/tun"), MachineState(), "sudo chmod a+rw /dev/net/tun"),
        ("fuse", Refused(errno.EACCES, "/dev/fuse"), MachineState(), "sudo chmod a+rw /dev/fuse"),
        ("fuse", Missing("program", "fusermount3"), MachineState(), "sudo apt-get install -y fuse3"),
        # What shapes links needs namespaces first.
        (
            "shaping",
            Refused(errno.ENOSPC, UNSHARE_USER),
            MachineState(settings={USERS_MAX: 0}),
            f"sudo sysctl -w {USERS_MAX}=10000",
        ),
        (
            "namespaces",
            Refused(errno.ENOSPC, UNSHARE_USER),
            MachineState(settings={USERS_MAX: 30_000}),
            f"sudo sysctl -w {USERS_MAX}=60000",
        ),
        (
            "namespaces",
            Refused(errno.ENOSPC, UNSHARE_NETWORK),
            MachineState(root=True, programs=frozenset()),
            "echo 10000 > /proc/sys/user/max_net_namespaces",
        ),
        (
            "namespaces",
            Refused(errno.EPERM, UNSHARE_USER),
            MachineState(settings={"kernel.apparmor_restrict_unprivileged_userns": 1}),
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("namespaces", Refused(errno.EPERM, UNSHARE_USER), MachineState(), "sudo .venv/bin/harrow run"),
        ("ext4", NotRoot(), MachineState(), "sudo .venv/bin/harrow run"),
        ("docker", NotRoot(), MachineState(), "sudo .venv/bin/harrow run --environment docker"),
    ],
)
def test_a_cause_has_its_command(capability: str, cause: Refused, here: MachineState, remedy: str) -> None:
    found = explain(capability, cause, here)
    assert found is not None
    assert found.remedy.command
    assert found.remedy.text == remedy


@pytest.mark.parametrize("what", [UNSHARE_USER, UNSHARE_NETWORK])
def test_where_root_itself_is_confined_no_command_is_offered(what: str) -> None:
    settings = {"kernel.apparmor_restrict_unprivileged_userns": 1, "kernel.unprivileged_userns_clone": 0}
    for root in (True, False):
        here = MachineState(root=root, bounding=CONFINED, filtered=True, settings=settings)
        found = explain("namespaces", Refused(errno.EPERM, what), here)
        assert found is not None
        assert found.cause == "confined"
        assert not found.remedy.command
        assert "--privileged" in found.remedy.text


def test_a_device_that_a_container_was_not_given_is_not_made_inside() -> None:
    found = explain("shaping", Refused(errno.ENOENT, "/dev/net/tun"), MachineState(root=True, bounding=CONFINED))
    assert found is not None
    assert (found.cause, found.remedy.command) == ("tun-not-given", False)
    assert "--device /dev/net/tun" in found.remedy.text


def test_an_unknown_cause_has_no_remedy() -> None:
    assert explain("namespaces", Refused(errno.EIO, "/proc/sys/net/ipv4/ip_forward"), MachineState()) is None
    assert explain("namespaces", None, MachineState()) is None
    assert explain("proxies", Refused(errno.EPERM, UNSHARE_USER), MachineState()) is None
    # An error of the right number about something else is another cause.
    assert explain("shaping", Refused(errno.EACCES, "/somewhere/else"), MachineState()) is None
