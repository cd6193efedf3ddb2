from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.environments.base import System
from harness.environments.docker.capabilities import try_docker
from harness.environments.docker.environment import DockerEnvironment
from harness.environments.local.environment import LocalEnvironment
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.feature_probes import (
    ProbeResult,
    try_clock,
    try_ext4,
    try_fuse,
    try_namespaces,
    try_shaping,
)
from harness.store.journal import Journal
from tests.support.real_faults import running_cluster
from tests.support.stand_in import StandIn

PROBES: dict[str, Callable[[], ProbeResult]] = {
    "namespaces": try_namespaces,
    "shaping": try_shaping,
    "ext4": try_ext4,
    "fuse": try_fuse,
    "clock": try_clock,
    "docker": try_docker,
}

ENVIRONMENTS = ("local", pytest.param("docker", marks=pytest.mark.docker))
"""Parameters of a fixture: the environments in which a fault is to be shown."""

_SOURCES = Path(__file__).parents[3]
_READY_S = 60.0

MakeEnvironment = Callable[..., MachineEnvironment]


def need(mechanism: str) -> None:
    """Skip where the machine does not offer a mechanism."""
    if mechanism in PROBES and not (result := PROBES[mechanism]()).available:
        pytest.skip(f"{mechanism}: {result.found}")


def make_in(environment: str, directory: Path, system: System | None = None, **choices: Any) -> MachineEnvironment:
    """A cluster of stand-ins, not yet set up, in an environment by its name."""
    need(environment)
    if environment == "docker":
        if choices.get("network") == "proxies":  # of which containers have no need
            choices["network"] = "auto"
        choices["sources"] = [_SOURCES]
    make: Any = {"local": LocalEnvironment, "docker": DockerEnvironment}[environment]
    made: MachineEnvironment = make(directory, system or StandIn(), journal=Journal(directory), **choices)
    return made


@contextmanager
def cluster_in(
    environment: str, directory: Path, system: System | None = None, **choices: Any
) -> Iterator[MachineEnvironment]:
    """A cluster of stand-ins that serves, in an environment by its name; taken down at the end."""
    with running_cluster(make_in(environment, directory, system, **choices), _READY_S) as made:
        yield made


@pytest.fixture(
    params=[pytest.param("namespaces", marks=pytest.mark.namespaces), pytest.param("proxies")],
)
def network(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


@pytest.fixture(
    params=[
        pytest.param("ext4", marks=pytest.mark.root),
        pytest.param("fuse", marks=pytest.mark.fuse),
        pytest.param("page-cache"),
    ],
)
def page_cache(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


@pytest.fixture
def make_environment(tmp_path: Path) -> Iterator[MakeEnvironment]:
    """Make environments whose cluster is taken down at the end, whatever happened."""
    made: list[MachineEnvironment] = []

    def make(system: StandIn | None = None, environment: str = "local", **choices: Any) -> MachineEnvironment:
        directory = tmp_path / f"run-{len(made)}"
        choices = {"brokers": 3, "network": "proxies", "page_cache": "page-cache", **choices}
        made.append(make_in(environment, directory, system, **choices))
        return made[-1]

    yield make
    for environment in made:
        environment.tear_down()
