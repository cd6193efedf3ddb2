"""The container files for running by hand match the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from broker.shell.properties import parse
from harness.environments.docker import image

ROOT = Path(__file__).parents[4]
COMPOSE = (ROOT / "containers/compose.yaml").read_text()


def _settings() -> dict[str, str]:
    """The settings of each service, by its name."""
    blocks = re.findall(r"^  ([\w-]+):\n    content: \|\n((?:      .*\n)+)", COMPOSE, re.MULTILINE)
    return {name: re.sub(r"(?m)^ {6}", "", block) for name, block in blocks}


def test_the_dockerfile_installs_what_the_image_from_nothing_has() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [line for line in project["dependencies"] if re.split(r"[<>=]", line)[0] in image._DISTRIBUTIONS]
    assert len(wanted) == len(image._DISTRIBUTIONS)
    recipe = (ROOT / "containers/Dockerfile").read_text()
    assert all(f'"{line}"' in recipe for line in wanted)


@pytest.mark.parametrize("service", ["controller", "broker-1", "broker-2", "broker-3"])
def test_the_settings_of_a_service_are_possible_and_lead_to_the_others(service: str) -> None:
    text = _settings()[service]
    settings = parse(text)
    assert settings.voters == {100: ("controller", 9093)}
    assert (settings.default_replication_factor, settings.min_insync_replicas) == (3, 2)
    assert f"  {service}:\n    <<: *node" in COMPOSE
    if service != "controller":
        outside = re.search(r"CLIENT://0\.0\.0\.0:(\d+)", text)
        assert outside is not None
        assert f"CLIENT://localhost:{outside[1]},BROKER://{service}:9092" in text
        assert f'"127.0.0.1:{outside[1]}:{outside[1]}"' in COMPOSE
