"""Probes whether this machine can connect to nodes by SSH."""

from __future__ import annotations

import importlib.util

from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Missing
from harness.environments.machine.feature_probes import ProbeResult, attempt


def try_ssh() -> ProbeResult:
    """Check for the library; hosts are examined when a run names them."""

    def probe() -> str:
        if importlib.util.find_spec("paramiko") is None:
            raise EnvironmentFailed("no Python package paramiko", Missing("Python package", "paramiko"))
        return "installed"

    return attempt("ssh", probe)
