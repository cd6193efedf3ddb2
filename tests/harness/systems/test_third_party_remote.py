"""A third-party broker in an image without Harrow's files, and on hosts reached by SSH."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from harness.environments import factory
from harness.environments.docker import engine, image
from harness.environments.docker.capabilities import try_docker
from harness.environments.docker.python_tree import PACKAGES_AT
from harness.environments.ssh.capabilities import SshCapabilities
from harness.environments.ssh.environment import SshEnvironment
from harness.run.judging import judge
from harness.shipped import SYSTEMS
from harness.store.journal import Journal
from harness.systems.definition import load
from harness.systems.factory import make_system
from harness.systems.foreign import ForeignBroker
from harness.systems.runtime import here
from history.reader import read_table
from reports import render
from tests.harness.systems.images import image_on
from tests.harness.systems.third_party import kill_again_and_again, need, results
from tests.support.foreign_systems import spec_for
from tests.support.ssh_lab import NamespaceFleet, lacking

pytestmark = [
    pytest.mark.third_party,
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

DEFINITION = SYSTEMS.files()["noida-db"]


def package() -> Path:
    """Where the broker's package is installed."""
    python = os.environ.get(need("noida-db"), sys.executable)
    done = subprocess.run(
        [python, "-c", "from importlib.resources import files; print(files('noida_db'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(done.stdout.strip())


def in_an_image(directory: Path) -> Path:
    """A run from an image of nothing but Python and the package; the definition has only the image's name."""
    files = {f"{PACKAGES_AT[1:]}/noida_db/{name}": package() / name for name in ("__init__.py", "noida-db")}
    name = f"harrow-test-noida:{secrets.token_hex(4)}"
    definition = directory / "noida-db.toml"
    definition.write_text(f'image = "{name}"\n{DEFINITION.read_text()}')
    with closing(engine.connect()) as client, image_on(client, image.python_image(client), files, name):
        spec = spec_for(definition, duration=14.0, environment="docker")
        system = make_system(spec)
        run = directory / "run"
        kill_again_and_again(spec, system, partial(factory.make, spec, frozenset(), run, system), run)
    return run


def on_a_host(directory: Path) -> Path:
    """A run on a host of the lab, which has the same programs as this machine."""
    spec = spec_for(DEFINITION, duration=14.0, inventory="lab.toml")
    definition = load(DEFINITION)
    system = ForeignBroker(spec, definition, {1: here(definition)})
    capabilities = SshCapabilities(frozenset({"nft", "ext4"}), ours=False)
    run = directory / "run"

    def make(journal: Journal) -> SshEnvironment:
        fleet = NamespaceFleet(directory / "hosts", spec.nodes)
        return SshEnvironment(run, system, spec.brokers, spec.controllers, fleet, capabilities, journal=journal)

    kill_again_and_again(spec, system, make, run)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A run in each environment that this machine supports, all checked at once."""
    need("noida-db")
    made = {}
    if try_docker().available:
        made["docker"] = in_an_image(tmp_path_factory.mktemp("image"))
    if lacking() is None:
        made["ssh"] = on_a_host(tmp_path_factory.mktemp("host"))
    if made:
        judge(list(made.values()))
    return made


@pytest.mark.docker
def test_in_an_image_it_loses_acknowledged_writes_under_kills_alone(runs: Mapping[str, Path]) -> None:
    if not (result := try_docker()).available:
        pytest.skip(result.found)
    assert "programs of the image harrow-test-noida:" in report_of_a_loss(runs["docker"])


@pytest.mark.ssh
@pytest.mark.root
def test_on_a_host_it_loses_acknowledged_writes_under_kills_alone(runs: Mapping[str, Path]) -> None:
    if lack := lacking():
        pytest.skip(lack)
    assert "by an agent on its machine" in report_of_a_loss(runs["ssh"])
    log = (runs["ssh"] / "nodes/1/node.log").read_text()
    assert log.count("press Ctrl-C to stop") > 2, "its own log was fetched from the host, of all its incarnations"


def report_of_a_loss(run: Path) -> str:
    found = results(run)
    assert found["verdict"] == "invalid"
    assert found["anomalies"]["lost-acked-write"]["violations"] > 0
    assert read_table(run, "runs").to_pylist()[0]["system"] == "noida-db"
    page = render(run).read_text()
    assert "noida-db 0." in page, "the version that was tested"
    return page
