"""A definition that names an image: the image is examined before anything is started."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from common.names import SpecError
from harness.commands import cli
from harness.environments.base import EnvironmentFailed
from harness.environments.docker import capabilities, engine, image
from harness.environments.docker.capabilities import try_docker
from harness.environments.machine.feature_probes import ProbeResult
from harness.systems.foreign import BrokerFromImage
from harness.terminal.exits import ExitStatus
from tests.harness.systems.images import image_on
from tests.support.foreign_systems import MINIMAL, Links, made, plans_of

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def small() -> Iterator[str]:
    """An image of Python alone."""
    if not (result := try_docker()).available:
        pytest.skip(result.found)
    name = f"harrow-test-{secrets.token_hex(4)}"
    with (
        closing(engine.connect()) as client,
        image_on(client, image.python_image(client), {"mark": Path(__file__)}, name),
    ):
        yield name


def definition(tmp_path: Path, name: str, text: str = MINIMAL) -> Path:
    file = tmp_path / "imaged.toml"
    file.write_text(f'image = "{name}"\n{text}')
    return file


def test_an_image_that_does_not_exist_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (result := try_docker()).available:
        pytest.skip(result.found)
    name = "localhost:1/no-such-broker:1"
    with pytest.raises(SystemExit) as ended:
        cli.main(
            [
                "run",
                "--environment",
                "docker",
                "--system",
                str(definition(tmp_path, name)),
                "--store",
                str(tmp_path / "s"),
            ]
        )
    assert ended.value.code == ExitStatus.USAGE
    line = capsys.readouterr().err
    assert f"expected the image {name} here or in its registry, found: " in line
    assert line.count("\n") == 1
    assert not (tmp_path / "s").exists(), "nothing was begun"


def test_without_an_engine_an_image_is_refused_as_for_any_other_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "try_docker", lambda: ProbeResult(False, "no engine"))
    with pytest.raises(SpecError, match="expected a Docker engine for the environment docker, found: no engine"):
        made(definition(tmp_path, "some:1"), environment="docker")


def test_a_definitions_commands_are_run_in_the_image(small: str, tmp_path: Path) -> None:
    text = MINIMAL.replace('"60"', '"{{ values.path }}"') + (
        "environment = { MARK = 'node-{{ node.id }}' }\n[values]\n"
        "path = ['{{ python }}', '-c', 'import os; print(os.environ[\"PYTHONPATH\"], os.getuid())']\n"
    )
    version = "version = ['python3', '-c', 'print(\"{{ values.path }} and {{ env.PYTHONUTF8 }}\")']\n"
    system = made(definition(tmp_path, small, version + text), environment="docker")
    assert isinstance(system, BrokerFromImage)
    assert system.traits.versions == {"least": "/opt/harrow 0 and 1"}
    plans = plans_of(system.spec, tmp_path)
    system.configure(plans[0], plans, Links())
    assert system.command(plans[0]) == ("sleep", "/opt/harrow 0")
    assert system.environment(plans[0]) == {"MARK": "node-1"}
    assert "clock" in system.cannot("namespaces", "ext4")


def test_without_a_start_command_the_image_runs_its_own(small: str, tmp_path: Path) -> None:
    text = MINIMAL.replace('start = ["sleep", "60"]', "")
    system = made(definition(tmp_path, small, text), environment="docker")
    plans = plans_of(system.spec, tmp_path)
    system.configure(plans[0], plans, Links())
    assert system.command(plans[0]) == ("python3",)


def test_a_failed_preparation_is_reported_and_nothing_started(small: str, tmp_path: Path) -> None:
    prepare = "prepare = [['echo', \"don't\"], ['sh', '-c', 'exit 7']]\n"
    system = made(definition(tmp_path, small, MINIMAL + prepare), environment="docker")
    plans = plans_of(system.spec, tmp_path)
    system.configure(plans[0], plans, Links())
    done = subprocess.run(system.command(plans[0]), capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 4
    assert done.stdout == "don't\n"
    assert done.stderr == "expected `sh -c exit 7` to prepare the node, found that it ended with status 7\n"


def test_what_is_done_once_is_done_again_only_where_the_data_are_gone(small: str, tmp_path: Path) -> None:
    once = "once = [['sh', '-c', 'echo made']]\nprepare = [['sh', '-c', 'echo prepared']]\n"
    text = MINIMAL.replace('"sleep", "60"', '"echo", "runs"')
    system = made(definition(tmp_path, small, text + once), environment="docker")
    plans = plans_of(system.spec, tmp_path)
    system.configure(plans[0], plans, Links())
    command = system.command(plans[0])

    def printed() -> list[str]:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()

    assert printed() == ["made", "prepared", "runs"]
    assert printed() == ["prepared", "runs"]
    shutil.rmtree(plans[0].data)
    plans[0].data.mkdir()
    assert printed() == ["made", "prepared", "runs"]


def test_another_image_can_be_asked_for(small: str, tmp_path: Path) -> None:
    system = made(definition(tmp_path, "nobody/has-this:1"), environment="docker", image=small)
    assert isinstance(system, BrokerFromImage)
    assert system.image == small


def test_an_image_without_the_broker_is_reported(small: str, tmp_path: Path) -> None:
    text = f"version = ['no-such-broker', '--version']\n{MINIMAL}"
    with pytest.raises(EnvironmentFailed) as caught:
        made(definition(tmp_path, small, text), environment="docker")
    line = str(caught.value)
    assert f"version: expected to run 'no-such-broker' in the image {small}, found: " in line
    assert "executable file not found" in line
    assert "\n" not in line


def test_an_image_is_ignored_outside_containers(tmp_path: Path) -> None:
    assert not isinstance(made(definition(tmp_path, "nobody/has-this:1")), BrokerFromImage)
