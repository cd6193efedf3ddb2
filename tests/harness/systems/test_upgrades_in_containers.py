"""Upgrades of clusters whose nodes are containers: of an image, then of another, or with programs of this machine."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from common.names import SpecError
from harness.environments.docker import engine, image
from harness.environments.docker.capabilities import try_docker
from harness.environments.docker.engine import LABEL
from harness.environments.docker.environment import DockerEnvironment
from harness.run.judging import judge
from harness.systems import factory
from harness.systems.definition import load
from harness.systems.foreign import BrokerFromImage, ForeignBroker
from harness.systems.runtime import here
from harness.systems.upgrade import UpgradableFromImages
from history.reader import read_table
from tests.harness.systems.images import image_on, shell
from tests.harness.systems.test_upgrades import perform, spec_of
from tests.support.foreign_systems import OWN_AS_FOREIGN, Links, plans_of, spec_for


def written(directory: Path, number: int, image_name: str | None = None) -> Path:
    """A definition of Harrow's own broker as a third party's, whose version says which of the two it is."""
    path = directory / f"{number}.toml"
    text = OWN_AS_FOREIGN.replace('name = "own"', f'name = "own-{number}"')
    if image_name is not None:
        version = '["python3", "-c", "print(open(\'/version\').read().strip())"]'
        text = f'image = "{image_name}"\n' + text.replace('["sh", "-c", "echo broker 9"]', version)
    path.write_text(text.replace("broker 9", str(number)))
    return path


def from_image(path: Path, name: str) -> BrokerFromImage:
    spec = spec_for(path, brokers=2, replication_factor=2, min_insync_replicas=1, environment="docker")
    runtime = here(load(path))
    return BrokerFromImage(spec, load(path), dict.fromkeys((1, 2, 100), runtime), image=name)


def test_each_node_has_the_image_and_the_environment_of_its_version(tmp_path: Path) -> None:
    paths = [written(tmp_path, number) for number in (1, 2)]
    paths[1].write_text(paths[1].read_text().replace("node-{{ node.id }}", "newer-{{ node.id }}"))
    system = UpgradableFromImages(from_image(paths[0], "own:1"), from_image(paths[1], "own:2"))
    plans = plans_of(system.first.spec, tmp_path)
    for plan in plans:
        system.configure(plan, plans, Links())
    assert system.images == ("own:1", "own:2")
    system.upgrade(plans[0])
    assert [system.image_of(plan) for plan in plans] == ["own:2", "own:1", "own:1"]
    assert [system.environment(plan) for plan in plans] == [{"MARK": "newer-1"}, {"MARK": "node-2"}, {}]
    assert system.sidecar(plans[0], 7)[-1] == "7"


def test_an_image_of_one_version_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [written(tmp_path, number) for number in (1, 2)]
    plain = from_image(paths[1], "own:2")
    systems = iter([from_image(paths[0], "own:1"), ForeignBroker(plain.spec, plain.definition, plain.runtimes)])
    monkeypatch.setattr(factory, "_one_version", lambda _: next(systems))
    with pytest.raises(SpecError, match="of both versions or of none, found own:1 of own-1 and none of own-2"):
        factory.make_system(spec_of(*paths, environment="docker"))


@pytest.fixture(params=["images", "machine"])
def definitions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Path]]:
    if not (result := try_docker()).available:
        pytest.skip(result.found)
    with ExitStack() as stack:
        names: list[str | None] = [None, None]
        if request.param == "images":
            client = stack.enter_context(closing(engine.connect()))
            for number in (1, 2):
                mark = tmp_path / f"version-{number}"
                mark.write_text(f"{number}\n")
                name = f"harrow-test-{secrets.token_hex(4)}"
                files = {**shell(), "version": mark}
                names[number - 1] = stack.enter_context(image_on(client, image.broker_image(client), files, name))
        yield [written(tmp_path, number, name) for number, name in enumerate(names, 1)]


@pytest.mark.docker
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_container_is_seen_to_run_the_old_version_and_then_the_new(
    definitions: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images: list[str] = []
    tear_down = DockerEnvironment.tear_down

    def look_and_tear_down(self: DockerEnvironment) -> None:
        with closing(engine.connect()) as client:
            nodes = client.containers.list(filters={"label": f"{LABEL}={self._token}", "name": "node"})
            images.extend(each.attrs["Config"]["Image"] for each in nodes)
        tear_down(self)

    monkeypatch.setattr(DockerEnvironment, "tear_down", look_and_tear_down)
    run = perform(tmp_path, spec_of(*definitions, environment="docker", duration=12.0, rate=200.0), 12.0)
    assert judge([run]) == ["valid"]
    (fault,) = read_table(run, "faults").to_pylist()
    assert (fault["kind"], fault["took_hold"], fault["healed"]) == ("upgrade", True, True), fault["evidence"]
    versions: dict[int, list[str]] = {}
    for row in sorted(read_table(run, "versions").to_pylist(), key=lambda row: row["at_ns"]):
        versions.setdefault(row["node"], []).append(row["version"])
    assert versions == {node: ["own-1 (1)", "own-2 (2)"] for node in (1, 2, 3, 100)}
    assert len(images) == 4
    if (newer := load(definitions[1]).image) is not None:
        assert set(images) == {newer}
