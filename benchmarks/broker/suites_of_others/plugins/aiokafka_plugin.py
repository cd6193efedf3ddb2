"""pytest plugin: gives aiokafka's tests a cluster that runs already, where its own fixtures start a container.

It stands alone, because it is loaded into the interpreter and beside the tests of another project. Environment:
HARROW_BROKERS, the addresses of all brokers, separated by commas.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

NOBODY_LISTENS = 9


@dataclass(frozen=True)
class Brokers:
    """What the suite's tests ask of a server."""

    hosts: list[str]
    host: str
    port: int
    ssl_port: int = NOBODY_LISTENS
    sasl_plain_port: int = NOBODY_LISTENS
    sasl_ssl_port: int = NOBODY_LISTENS
    container: None = None


class Absent:
    """A service beside the broker that there is not: a test that uses it fails."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> object:
        if name == "cleanup":  # every test of access control asks for it at its end
            return lambda: None
        return lambda *_, **__: pytest.fail(f"the cluster has no {self._what}")


def _fixtures() -> dict[str, object]:
    @pytest.fixture(scope="session")
    def kafka_server() -> Brokers:
        hosts = os.environ["HARROW_BROKERS"].split(",")
        host, port = hosts[0].rsplit(":", 1)
        return Brokers(hosts, host, int(port))

    @pytest.fixture(scope="session")
    def ssl_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("no-certificates")

    @pytest.fixture(scope="class")
    def acl_manager() -> Absent:
        return Absent("access control")

    @pytest.fixture(scope="class")
    def kafka_config() -> Absent:
        return Absent("users")

    @pytest.fixture(scope="class")
    def kerberos_utils() -> Absent:
        return Absent("Kerberos")

    own = (kafka_server, ssl_folder, acl_manager, kafka_config, kerberos_utils)
    names = ("kafka_server", "ssl_folder", "acl_manager", "kafka_config", "kerberos_utils")
    return dict(zip(names, own, strict=True))


@pytest.hookimpl(tryfirst=True)
def pytest_plugin_registered(plugin: object) -> None:
    """Replace the fixtures in the suite's conftest before pytest reads them there."""
    if isinstance(plugin, ModuleType) and Path(plugin.__file__ or "").name == "conftest.py":
        for name, fixture in _fixtures().items():
            if hasattr(plugin, name):
                setattr(plugin, name, fixture)
