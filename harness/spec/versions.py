"""Lists the versions of the software that can influence a run, for its readers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version


def versions(client: str) -> Mapping[str, str]:
    """Name → version of Harrow, of the client library (its distribution's name), of Python and of the kernel."""
    return {
        "harrow": _installed("harrow"),
        client: _installed(client),
        "Python": platform.python_version(),
        platform.system(): platform.release(),
    }


def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"  # run from a source tree
