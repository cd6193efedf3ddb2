"""Where a broker's programs are, and what is found there: on this machine, in an image, or on each node's host.

A definition's own commands (values, version) are run in the place itself, before anything is started.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from harness.environments.base import EnvironmentFailed
from harness.environments.common.layout import roles
from harness.spec.spec import Spec
from harness.systems.definition import Command, Definition
from harness.systems.templating import TemplateError, filled
from naming import SpecError

if TYPE_CHECKING:
    from docker import DockerClient

    from harness.environments.ssh.connection.ssh import Connection
    from harness.environments.ssh.fleet.hosts import SshHost

_TIMEOUT_S = 20.0


class Printed(NamedTuple):
    """What came of a command."""

    status: int
    output: str
    errors: str


class CannotRunError(Exception):
    """A command that could not be run, or not to its end. The message says why."""


@dataclass(frozen=True)
class Place:
    """What is known of where a node's programs are."""

    where: str = ""  # in words, after what is said to be there; empty: this machine
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    python: str = sys.executable
    values: Mapping[str, str] = field(default_factory=dict)  # what the definition's commands printed
    version: str | None = None
    command: Command = ()  # that an image would run by itself

    @property
    def names(self) -> Mapping[str, object]:
        """What templates may name wherever the node is."""
        return {"env": self.env, "python": self.python, "values": self.values}

    def wrong(self, definition: Definition, expected: str, found: str) -> Exception:
        """What is missing there, as one line: on this machine it is what was asked for that is wrong."""
        advice = f"; {definition.install}" if definition.install else ""
        line = f"{definition.path}: {expected}{self.where}, found: {found}{advice}"
        return EnvironmentFailed(line) if self.where else SpecError(line)


_Run = Callable[[Command], Printed]
"""Runs a command to its end in the place. Raises `CannotRunError`."""


def places_of(spec: Spec, definition: Definition) -> Mapping[int, Place]:
    """Look where each node's programs are. Raises `SpecError`, and `EnvironmentFailed` for an image or a host."""
    nodes = list(roles(spec.brokers, spec.controllers))
    if spec.environment == "ssh":
        return dict(zip(nodes, _on_hosts(spec, definition), strict=True))
    image = image_of(spec, definition)
    if not image:
        return dict.fromkeys(nodes, here(definition))
    from harness.environments.docker import capabilities

    try:
        capabilities.choose(spec.network, spec.page_cache, frozenset())
    except EnvironmentFailed as error:  # there is no engine: not one that was asked for
        raise SpecError(str(error)) from error
    return dict.fromkeys(nodes, _in_image(definition, image))


def image_of(spec: Spec, definition: Definition) -> str:
    """The image that containers are made of; empty where nodes run what is installed."""
    return (spec.image or definition.image or "") if spec.environment == "docker" else ""


def here(definition: Definition) -> Place:
    """This machine. Raises `SpecError`."""
    return _looked(definition, Place(), _run_here)


def _looked(definition: Definition, place: Place, run: _Run) -> Place:
    """Run what the definition wants to be run in the place."""
    values = {
        name: _printed(definition, place, f"values.{name}", command, run) for name, command in definition.values.items()
    }
    place = replace(place, values=values)
    if definition.version is None:
        return place
    return replace(place, version=_printed(definition, place, "version", definition.version, run))


def _printed(definition: Definition, place: Place, key: str, command: Command, run: _Run) -> str:
    """What a command prints; one line of it counts, the last."""
    try:
        words = filled(command, place.names)
    except TemplateError as error:
        raise SpecError(
            f"{definition.path}: {key}: expected a template that can be filled in, found: {error}"
        ) from error
    try:
        done = run(words)
    except CannotRunError as error:
        raise place.wrong(definition, f"{key}: expected to run {words[0]!r}", str(error)) from error
    lines = done.output.strip().splitlines()
    if done.status != 0 or not lines:
        said = done.errors.strip().splitlines()
        found = said[-1] if said else f"status {done.status} and nothing printed"
        raise place.wrong(definition, f"{key}: expected {words[0]!r} to print a value", found)
    return lines[-1].strip()


def _run_here(command: Command) -> Printed:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except OSError as error:
        raise CannotRunError(str(error.strerror)) from error
    except subprocess.TimeoutExpired as error:
        raise CannotRunError(f"no end within {_TIMEOUT_S:g} s") from error
    return Printed(done.returncode, done.stdout, done.stderr)


def _in_image(definition: Definition, name: str) -> Place:
    """An image, which is pulled if it is not there."""
    from harness.environments.docker import engine, given_image
    from harness.environments.docker.image import PYTHON

    with closing(engine.connect()) as client:
        settings = given_image.pulled(client, name)
        place = Place(f" in the image {name}", settings.environment, PYTHON, command=settings.command)
        return _looked(definition, place, _in_container(client, name))


def _in_container(client: DockerClient, name: str) -> _Run:
    from harness.environments.docker import engine, given_image

    def run(command: Command) -> Printed:
        try:
            return Printed(*given_image.run_once(client, name, command, _TIMEOUT_S))
        except engine.troubles() as error:
            raise CannotRunError(engine.told(error)) from error

    return run


def _on_hosts(spec: Spec, definition: Definition) -> Sequence[Place]:
    """The host of each node."""
    from harness.environments.ssh.connection.ssh import Connection
    from harness.environments.ssh.fleet import selection

    selection.capabilities_of(spec)  # says first what else may be wrong with them

    def look(host: SshHost) -> Place:
        with closing(Connection(host)) as connection:
            return on_host(definition, connection)

    hosts = selection.hosts_of(spec)
    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(pool.map(look, hosts))


def on_host(definition: Definition, connection: Connection) -> Place:
    """A host that we are logged in to. Raises `SpecError`, `EnvironmentFailed`."""

    def run(command: Command) -> Printed:
        answer = connection.run(shlex.join(command), as_root=True, timeout_s=_TIMEOUT_S)
        return Printed(answer.status, answer.output, answer.errors)

    told = run(("env", "-0")).output.split("\0")
    env = dict(line.split("=", 1) for line in told if "=" in line)
    host = connection.host
    return _looked(definition, Place(f" on host {host.name}", env, host.python), run)
