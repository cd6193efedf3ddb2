"""A broker that others wrote, where nothing of ours is beside it: in an image, and on hosts that are reached by SSH."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from harness.environments import registry
from harness.environments.docker import engine, image
from harness.environments.docker.python_tree import PACKAGES_AT
from harness.environments.docker.trial import try_docker
from harness.judging import judge
from harness.systems import choice
from history.reader import read_table
from reports import render
from tests.support.foreign_systems import ROOT, spec_for
from tests.support.images import image_on
from tests.support.third_party import kill_again_and_again, need, results

pytestmark = [pytest.mark.third_party, pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(600)]

DEFINITION = ROOT / "systems/noida-db.toml"


def package() -> Path:
    """Where the broker's package is installed."""
    python = os.environ.get(need("noida-db"), sys.executable)
    told = subprocess.run(
        [python, "-c", "from importlib.resources import files; print(files('noida_db'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(told.stdout.strip())


def loses_acknowledged_writes(run: Path) -> str:
    """The report of a run that shows it."""
    judge([run])
    found = results(run)
    assert found["verdict"] == "invalid"
    assert found["anomalies"]["lost-acked-write"]["violations"] > 0
    assert read_table(run, "runs").to_pylist()[0]["system"] == "noida-db"
    page = render(run).read_text()
    assert "noida-db 0." in page, "the version that was tested"
    return page


@pytest.mark.docker
def test_in_an_image_it_loses_acknowledged_writes_under_kills_alone(tmp_path: Path) -> None:
    if not (trial := try_docker()).available:
        pytest.skip(trial.found)
    files = {f"{PACKAGES_AT[1:]}/noida_db/{name}": package() / name for name in ("__init__.py", "noida-db")}
    name = f"harrow-test-noida:{secrets.token_hex(4)}"
    with closing(engine.connect()) as client, image_on(client, image.python_image(client), files, name):
        definition = tmp_path / "noida-db.toml"
        definition.write_text(f'image = "{name}"\n{DEFINITION.read_text()}')
        spec = spec_for(definition, duration=14.0, environment="docker")
        system = choice.make(spec)
        run = tmp_path / "run"
        kill_again_and_again(spec, system, partial(registry.make, spec, frozenset(), run, system), run)
    assert f"programs of the image {name}" in loses_acknowledged_writes(run)
