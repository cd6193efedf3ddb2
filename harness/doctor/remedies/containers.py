"""Remedies for confined processes: the options with which a container or service must be started."""

from __future__ import annotations

from harness.doctor.remedies.commands import Remedy, sentence
from harness.doctor.remedies.here import MachineState

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
