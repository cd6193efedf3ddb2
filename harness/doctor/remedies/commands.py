"""Remedies as a user pastes them: one command, or one sentence where no command would help."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires

from harness.doctor.remedies.here import Here

_MODULES = {"kafka-python": "kafka"}
_FOR_A_SHELL = frozenset("&|;<>()$`*?[]{}")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Remedy:
    """What to do."""

    text: str
    command: bool
    """Whether it can be pasted into a shell; else it is a sentence."""


def sentence(text: str) -> Remedy:
    """Say what to do, where no command on this machine would help."""
    return Remedy(text, command=False)


def command(text: str) -> Remedy:
    """Run this as the user who runs Harrow."""
    return Remedy(text, command=True)


def as_root(here: Here, *commands: str) -> Remedy:
    """Run these as root, each if the one before has succeeded."""
    text = " && ".join(commands)
    if here.root:
        return command(text)
    if "sudo" not in here.programs:
        return command(f"su - -c {shlex.quote(text)}")
    simple = not set(text) & _FOR_A_SHELL
    return command(f"sudo {text}" if simple else f"sudo sh -c {shlex.quote(text)}")


def set_kernel(here: Here, name: str, value: int) -> Remedy:
    """Change a kernel setting until the machine is started again."""
    if "sysctl" in here.programs:
        return as_root(here, f"sysctl -w {name}={value}")
    return as_root(here, f"echo {value} > /proc/sys/{name.replace('.', '/')}")


def install(here: Here, *packages: str, then: tuple[str, ...] = (), lean: bool = False) -> Remedy:
    """Install packages, named as Debian names them; `lean`: without what they merely recommend, which can be a lot."""
    if "apt-get" not in here.programs:
        return sentence(
            f"install what Debian calls {' and '.join(packages)}, by this machine's own package manager"
            + "".join(f"; then, as root: {one}" for one in then)
        )
    update = () if here.package_lists else ("apt-get update",)
    options = "-y --no-install-recommends" if lean else "-y"
    return as_root(here, *update, f"apt-get install {options} {' '.join(packages)}", *then)


def install_python(here: Here, distribution: str) -> Remedy:
    """Install a Python package for the interpreter that runs Harrow, in a version that Harrow can use."""
    wanted = shlex.quote(requirement(distribution))
    python = shlex.quote(here.python)
    if here.installer == "uv":
        return command(f"uv pip install --python {python} {wanted}")
    # Without a virtual environment pip installs for the user alone what it may not install for all.
    managed = "--break-system-packages " if here.managed and not here.virtual else ""
    steps = [f"{python} -m pip install {managed}{wanted}"]
    if here.installer == "none":
        steps.insert(0, f"{python} -m ensurepip")
    if here.packages_writable or not here.virtual:
        return command(" && ".join(steps))
    return as_root(here, *steps)


def distributions() -> dict[str, str]:
    """What Harrow requires without any extra: distribution → the module that it brings."""
    plain = [line for line in _requirements() if "extra ==" not in line]
    names = [_name(line) for line in plain]
    return {name: _MODULES.get(name, name.replace("-", "_")) for name in names}


def requirement(distribution: str) -> str:
    """A distribution with the versions that Harrow can use, as pip takes it."""
    for line in _requirements():
        if _name(line) == _name(distribution):
            return line.partition(";")[0].strip()
    return distribution


def _requirements() -> list[str]:
    """All that Harrow requires, for whichever extra; none if it was never installed."""
    try:
        return requires("harrow") or []
    except PackageNotFoundError:
        return []


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    return (found[0] if found else requirement).lower().replace("_", "-")
