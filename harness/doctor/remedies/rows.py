"""Defines a row of the table of remedies (a cause, on which machine, what to do), and rows for devices and packages."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.doctor.remedies.machine_state import ALL_CAPABILITIES, CAP_SYS_ADMIN, MachineState
from harness.doctor.remedies.remedy import Remedy, as_root, install, install_python, sentence, with_device
from harness.environments.causes import Cause, Missing, NotRoot, Refused, TooLittle, Unfit

Predicate = Callable[[Cause, MachineState], bool]
RemedyFactory = Callable[[Cause, MachineState], Remedy]

_NO_DEVICE = (errno.ENODEV, errno.ENXIO)


@dataclass(frozen=True)
class RemedyRow:
    """One cause for the absence of one capability."""

    name: str
    """Name of the cause, e.g. fuse-closed."""
    words: str
    """Description of the cause, for users."""
    holds: Predicate
    remedy: Remedy | RemedyFactory
    example: Cause
    """What a probe reports where this is the cause."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """How such a machine differs from the default `MachineState()`, for the documentation and the tests."""

    def choose(self, cause: Cause, here: MachineState) -> Remedy:
        """The remedy for this machine."""
        return self.remedy if isinstance(self.remedy, Remedy) else self.remedy(cause, here)

    @property
    def here(self) -> MachineState:
        """A machine that has this cause."""
        return replace(MachineState(), **self.machine)


def first(rows: Sequence[RemedyRow], cause: Cause | None, here: MachineState) -> RemedyRow | None:
    """The first row that applies; None if none does, or the cause is unknown."""
    return next((row for row in rows if cause is not None and row.holds(cause, here)), None)


def anywhere(here: MachineState) -> bool:  # noqa: ARG001
    """Return True on every machine."""
    return True


def refused(what: str, *numbers: int, when: Callable[[MachineState], bool] = anywhere) -> Predicate:
    """A predicate: a call whose description starts with `what` failed with one of these errors, on such a machine."""

    def holds(cause: Cause, here: MachineState) -> bool:
        return isinstance(cause, Refused) and cause.what.startswith(what) and cause.number in numbers and when(here)

    return holds


def missing(name: str) -> Predicate:
    """A predicate: this was missing."""
    return lambda cause, here: isinstance(cause, Missing) and cause.name == name  # noqa: ARG005


def too_little(where: str = "") -> Predicate:
    """A predicate: there was too little of a resource, at `where` if that is given."""
    return lambda cause, here: isinstance(cause, TooLittle) and where in ("", cause.where)  # noqa: ARG005


def unfit(what: str) -> Predicate:
    """A predicate: this was present but unusable."""
    return lambda cause, here: cause == Unfit(what)  # noqa: ARG005


def not_root(cause: Cause, here: MachineState) -> bool:  # noqa: ARG001
    """A predicate: root is required."""
    return isinstance(cause, NotRoot)


def any_of(*predicates: Predicate) -> Predicate:
    """A predicate: one of these holds."""
    return lambda cause, here: any(holds(cause, here) for holds in predicates)


def always(choose: Callable[[MachineState], Remedy]) -> RemedyFactory:
    """A remedy that depends on the machine alone."""
    return lambda cause, here: choose(here)  # noqa: ARG005


def device_rows(path: str, driver: str, module: str, make: Sequence[str], use: Sequence[str]) -> tuple[RemedyRow, ...]:
    """Rows for a character device, `driver` as /proc/misc names it.

    `make` are root's commands that make its file, `use` those that give users access once the driver has made it.
    """
    outside = sentence(f"outside of the container, on the machine: `sudo chmod a+rw {path}`")

    def has_driver(here: MachineState) -> bool:
        return driver in here.drivers

    def loadable(here: MachineState) -> bool:
        return driver not in here.drivers and module in here.modules and here.may_load_modules

    def unknown(here: MachineState) -> bool:
        return not has_driver(here) and not loadable(here)

    return (
        RemedyRow(
            f"{driver}-closed-outside",
            f"this user may not open `{path}`, and its owner is not in this user namespace",
            refused(path, errno.EACCES, when=lambda here: path in here.unowned),
            outside,
            Refused(errno.EACCES, path),
            {"own_users": True, "unowned": frozenset({path})},
        ),
        RemedyRow(
            f"{driver}-closed",
            f"this user may not open `{path}`",
            refused(path, errno.EACCES),
            always(lambda here: as_root(here, f"chmod a+rw {path}")),
            Refused(errno.EACCES, path),
        ),
        RemedyRow(
            f"{driver}-forbidden",
            f"the container may not use `{path}`",
            refused(path, errno.EPERM),
            with_device(path),
            Refused(errno.EPERM, path),
            {"root": True, "bounding": ALL_CAPABILITIES & ~CAP_SYS_ADMIN},
        ),
        RemedyRow(
            f"{driver}-not-given",
            f"the container has no `{path}`",
            refused(path, errno.ENOENT, when=lambda here: not here.may_make_devices),
            with_device(path),
            Refused(errno.ENOENT, path),
            {"bounding": ALL_CAPABILITIES & ~CAP_SYS_ADMIN},
        ),
        RemedyRow(
            f"{driver}-absent",
            f"there is no `{path}`, but the kernel has its driver",
            refused(path, errno.ENOENT, when=has_driver),
            always(lambda here: as_root(here, *make)),
            Refused(errno.ENOENT, path),
        ),
        RemedyRow(
            f"{driver}-not-loaded",
            f"the kernel has not loaded its module `{module}`",
            refused(path, errno.ENOENT, *_NO_DEVICE, when=loadable),
            always(lambda here: as_root(here, f"modprobe {module}", *use)),
            Refused(errno.ENOENT, path),
            {"drivers": frozenset(), "modules": frozenset({module})},
        ),
        RemedyRow(
            f"{driver}-unknown",
            f"the kernel has no driver `{module}`, neither loaded nor as a module",
            refused(path, errno.ENOENT, *_NO_DEVICE, when=unknown),
            sentence(f"boot a kernel with the module `{module}`; after an upgrade of the kernel: reboot"),
            Refused(errno.ENOENT, path),
            {"drivers": frozenset()},
        ),
    )


def python_package(distribution: str) -> RemedyRow:
    """A row for a Python package that is not installed."""
    return RemedyRow(
        f"no-{distribution}",
        f"the Python package {distribution} is not installed",
        missing(distribution),
        always(lambda here: install_python(here, distribution)),
        Missing("Python package", distribution),
    )


def program(name: str, package: str, *, lean: bool = False, **machine: object) -> RemedyRow:
    """A row for a program that a package of the distribution would install."""
    return RemedyRow(
        f"no-{package}",
        f"the program `{name}` is not installed",
        missing(name),
        always(lambda here: install(here, package, lean=lean)),
        Missing("program", name),
        machine,
    )
