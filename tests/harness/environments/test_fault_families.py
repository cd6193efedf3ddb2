"""A family of faults means those of its kinds that the machine can inject, and is an error if it can inject none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.commands import cli
from harness.environments import possible_faults
from harness.environments.local import capabilities
from harness.environments.machine import mechanisms
from harness.environments.machine.feature_probes import ProbeResult
from harness.spec.spec import resolve
from harness.systems.factory import make_system
from harness.terminal.exits import ExitStatus
from nemesis.faults import KINDS
from nemesis.faults.families import FAMILIES, PARTITION
from nemesis.recipes import RECIPES


@pytest.fixture
def poor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with proxies and the broker's ledger alone."""
    for module, names in (
        (capabilities, ("try_namespaces", "try_shaping", "try_ext4", "try_fuse", "try_clock")),
        (mechanisms, ("try_ext4", "try_fuse")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, lambda: ProbeResult(False, "not here"))
    monkeypatch.setattr(capabilities, "select_network", lambda _wanted: "proxies")
    monkeypatch.setattr(mechanisms, "select_page_cache", lambda _wanted: "page-cache")


def settled(faults: str) -> Sequence[str]:
    spec = resolve({"faults": faults}, 0)
    return possible_faults.expand_families(spec, make_system(spec)).faults


@pytest.mark.usefixtures("poor")
@pytest.mark.parametrize(
    ("faults", "kinds"),
    [
        ("network", FAMILIES[PARTITION]),
        ("partition,pause", (*FAMILIES[PARTITION], "pause")),
        ("disk", ("bit-flip", "file-truncation", "file-loss", "disk-loss", "disk-rollback")),
        ("administration", ("topic-churn", "reassignment", "preferred-election", "raised-min-isr")),
        ("kill", ("kill",)),
    ],
)
def test_a_family_is_what_a_poor_machine_can_inject_of_it(faults: str, kinds: tuple[str, ...]) -> None:
    assert settled(faults) == kinds


@pytest.mark.usefixtures("poor")
def test_all_is_every_family() -> None:
    possible = set(settled("all"))
    assert possible < {*KINDS, *RECIPES}
    families = ("process", "network", "page-cache", "disk", "administration", "recipe")
    assert possible == {kind for family in families for kind in settled(family)}


@pytest.mark.usefixtures("poor")
@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ("clock", "faults: expected a fault of clock that can be injected, found none of its kinds; leave it out"),
        ("network,clock,kill", "faults: expected a fault of clock that can be injected"),
        ("network,slow-network", "faults: slow-network needs network-shaping, which this machine lacks: namespaces"),
    ],
)
def test_what_cannot_be_injected_is_refused_before_anything_starts(
    faults: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--faults", faults])
    assert ended.value.code == ExitStatus.USAGE
    line = capsys.readouterr().err
    assert line.startswith(f"harrow: {expected}")
    assert line.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_file_takes_families_too() -> None:
    assert resolve({"faults": ["network", "usual"]}, 0).faults[0] == "network"
