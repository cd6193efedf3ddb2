"""Reports what the machine lacks as a usage error, as long as nothing was started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.environments.base import EnvironmentFailed
from harness.run.stopping import MissingPrerequisite


@contextmanager
def before_start() -> Iterator[None]:
    """Turn `EnvironmentFailed` into `MissingPrerequisite`: nothing has been started yet."""
    try:
        yield
    except EnvironmentFailed as error:
        raise MissingPrerequisite(str(error)) from error
