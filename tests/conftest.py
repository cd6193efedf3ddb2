"""What holds for every test."""

import os
import sys

import pytest
from hypothesis import settings

# A machine that is busy is no failure: how long an example takes is not what the properties are about.
settings.register_profile("harrow", deadline=None)
settings.load_profile("harrow")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip for a plain user what only root can do."""
    if item.get_closest_marker("root") is not None and os.geteuid() != 0:
        pytest.skip("root: this is another user")


def pytest_sessionfinish() -> None:
    """Leave no virtual machine behind: processes that run tests side by side end without their exit handlers."""
    if "checkers.spark" in sys.modules:
        sys.modules["checkers.spark"].end_java()
