"""Settings of all tests: privileges, the shared Spark session, and the order of files."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Generator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A machine that is busy is no failure: how long an example takes is not what the properties are about.
settings.register_profile("harrow", deadline=None)
settings.load_profile("harrow")


LONG = ("slow", "spark", "cluster")
"""Marks of tests that take long, the longest first; nothing takes as long as what shares the Spark session."""


SESSION = ("spark", "start_spark")
"""Parameters of tests and fixtures that use the Spark session."""
SPARK_S_MAX = 1200
"""A check that many tests wait for takes minutes on a machine that does much else, and is not interrupted for that."""


@pytest.fixture(scope="session")
def start_spark() -> Callable[[], SparkSession]:
    """Return the Spark session. Files whose tests ask for it all run in one process, so that there is only one.

    A test may reach its time limit within a call of the session. The next test gets another session.
    """
    from checkers.spark import start_session

    return partial(start_session, "local[2]")


@pytest.fixture
def spark(start_spark: Callable[[], SparkSession]) -> SparkSession:
    """The Spark session, as `start_spark` has it."""
    return start_spark()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first the files that take longest, so that no process is left alone with one of them at the end."""
    marked = {(mark, item.path) for item in items for mark in LONG if item.get_closest_marker(mark) is not None}
    items.sort(key=lambda item: (not asks_for_spark(item.path), *((mark, item.path) not in marked for mark in LONG)))
    for item in items:
        if asks_for_spark(item.path) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_S_MAX))
        if all(item.get_closest_marker(mark) is not None for mark in ("default_job", "slow")):
            raise pytest.UsageError(
                f"expected the default job to be in `make test`, found it marked slow: {item.nodeid}"
            )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep files that ask for the Spark session together, with `--dist loadfile`, which keeps those of a file so."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class BySession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "the Spark session" if asks_for_spark(config.rootpath / file) else file

    config.option.loadscopereorder = False  # the order is that of the collection
    return BySession(config, log)


@cache
def asks_for_spark(file: Path) -> bool:
    """Whether a function of a test file has the session for a parameter. (Not imported: they are distributed first.)"""
    text = file.read_text()
    return "spark" in text and any(
        isinstance(node, ast.arg) and node.arg in SESSION for node in ast.walk(ast.parse(text))
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a skip hide an extra, but never the default job, which has to work on every machine."""
    report = yield
    if report.skipped and item.get_closest_marker("default_job") is not None:
        report.outcome = "failed"
        report.longrepr = f"expected the default job to be tested on every machine, found it skipped: {report.longrepr}"
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip for a plain user what only root can do."""
    needs_root = any(item.get_closest_marker(mark) is not None for mark in ("root", "machines"))
    if needs_root and os.geteuid() != 0:
        pytest.skip("root: this is another user")


def pytest_sessionfinish() -> None:
    """Leave no virtual machine behind: processes that run tests side by side end without their exit handlers."""
    if "checkers.spark" in sys.modules:
        sys.modules["checkers.spark"].end_java()
