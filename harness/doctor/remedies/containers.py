"""What a container, or whatever else confines a process, must be started with."""

from __future__ import annotations

from harness.doctor.remedies.commands import Remedy, sentence
from harness.doctor.remedies.here import Here

PRIVILEGED = sentence("start the container with `--privileged` (docker run, podman run), or run Harrow outside of it")
UNFILTERED = sentence(
    "start what filters system calls here without that filter: `docker run --security-opt seccomp=unconfined`, or "
    "`RestrictNamespaces=no` in a systemd unit"
)
GAINING = sentence("start the container or the service without `no-new-privileges`")
OF_THE_MACHINE = sentence("run Harrow as the machine's own root, outside of the rootless container or user namespace")


def confined(here: Here) -> bool:
    """Whether root itself lacks here what it has on a machine."""
    return here.confined


def with_device(path: str) -> Remedy:
    """Have the container get a device."""
    return sentence(f"start the container with `--device {path}` (docker run, podman run)")
