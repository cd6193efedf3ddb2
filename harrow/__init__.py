"""The public API for Python programs: simulate a cluster by its seed, check a stored run, get the results as data.

Nothing is imported before it is used, so that `import harrow`, and pytest with its plugin, cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harrow.checking import CheckResult, check
    from harrow.frames import to_frame
    from harrow.simulating import Finding, Simulation, simulate

__all__ = ["CheckResult", "Finding", "Simulation", "check", "simulate", "to_frame"]

_PLACES = {
    "CheckResult": "harrow.checking",
    "Finding": "harrow.simulating",
    "Simulation": "harrow.simulating",
    "check": "harrow.checking",
    "simulate": "harrow.simulating",
    "to_frame": "harrow.frames",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'harrow' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
