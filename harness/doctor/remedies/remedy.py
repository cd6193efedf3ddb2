"""Formats remedies: one command that a user can paste, or one sentence where no command would help."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires

from harness.doctor.remedies.machine_state import MachineState

_MODULES = {"kafka-python": "kafka"}
_FOR_A_SHELL = frozenset("&|;<>()$`*?[]{}")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Remedy:
    """A remedy: a command or a sentence."""

    text: str
    command: bool
    """Whether `text` is a shell command; else it is a sentence."""


def sentence(text: str) -> Remedy:
    """A remedy in words, where no command on this machine would help."""
    return Remedy(text, command=False)


def command(text: str) -> Remedy:
    """A command for the user who runs Harrow."""
    return Remedy(text, command=True)


def as_root(here: MachineState, *commands: str) -> Remedy:
    """Commands for root, each run if the one before has succeeded."""
    text = " && ".join(commands)
    if here.root:
        return command(text)
    if "sudo" not in here.programs:
        return command(f"su - -c {shlex.quote(text)}")
    simple = not set(text) & _FOR_A_SHELL
    return command(f"sudo {text}" if simple else f"sudo sh -c {shlex.quote(text)}")


def set_kernel(here: MachineState, name: str, value: int) -> Remedy:
    """Change a kernel setting until the next boot."""
    if "sysctl" in here.programs:
        return as_root(here, f"sysctl -w {name}={value}")
    return as_root(here, f"echo {value} > /proc/sys/{name.replace('.', '/')}")


def install(here: MachineState, *packages: str, then: tuple[str, ...] = (), lean: bool = False) -> Remedy:
    """Install packages by their Debian names; `lean`: without the packages that they recommend, which can be many."""
    if "apt-get" not in here.programs:
        return sentence(
            f"install {' and '.join(packages)} (Debian's names) with this machine's package manager"
            + "".join(f"; then, as root: {one}" for one in then)
        )
    update = () if here.package_lists else ("apt-get update",)
    options = "-y --no-install-recommends" if lean else "-y"
    return as_root(here, *update, f"apt-get install {options} {' '.join(packages)}", *then)


def install_python(here: MachineState, distribution: str) -> Remedy:
    """Install a Python package, in a supported version, for the interpreter that runs Harrow."""
    wanted = shlex.quote(requirement(distribution))
    python = shlex.quote(here.python)
    if here.installer == "uv":
        return command(f"uv pip install --python {python} {wanted}")
    # Without a virtual environment pip installs for the user alone if it may not install for all.
    managed = "--break-system-packages " if here.managed and not here.virtual else ""
    steps = [f"{python} -m pip install {managed}{wanted}"]
    if here.installer == "none":
        steps.insert(0, f"{python} -m ensurepip")
    if here.packages_writable or not here.virtual:
        return command(" && ".join(steps))
    return as_root(here, *steps)


def distributions() -> dict[str, str]:
    """Harrow's requirements without any extra: distribution → module."""
    plain = [line for line in _requirements() if "extra ==" not in line]
    names = [_name(line) for line in plain]
    return {name: _MODULES.get(name, name.replace("-", "_")) for name in names}


def requirement(distribution: str) -> str:
    """A distribution with the versions that Harrow supports, as pip takes it."""
    for line in _requirements():
        if _name(line) == _name(distribution):
            return line.partition(";")[0].strip()
    return distribution


def _requirements() -> list[str]:
    """All requirements of Harrow, of all extras; none if Harrow is not installed."""
    try:
        return requires("harrow") or []
    except PackageNotFoundError:
        return []


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    return (found[0] if found else requirement).lower().replace("_", "-")


PRIVILEGED = sentence("start the container with `--privileged` (docker run, podman run), or run Harrow outside of it")
UNFILTERED = sentence(
    "start the container or service without its filter of system calls: `docker run --security-opt "
    "seccomp=unconfined`, or `RestrictNamespaces=no` in a systemd unit"
)
GAINING = sentence("start the container or the service without `no-new-privileges`")
OF_THE_MACHINE = sentence("run Harrow as the machine's own root, outside of the rootless container or user namespace")


def confined(here: MachineState) -> bool:
    """Whether even root lacks capabilities here, as in a container."""
    return here.confined


def with_device(path: str) -> Remedy:
    """Start the container with a device."""
    return sentence(f"start the container with `--device {path}` (docker run, podman run)")
