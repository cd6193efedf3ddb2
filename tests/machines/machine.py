"""Runs commands on a reduced machine: in namespaces over a Debian root, or in a Docker container made of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.machines.roots import locked, root_of
from tests.machines.rows import Row

HERE = Path(__file__).parent


def in_machine(
    row: Row,
    shared: Mapping[Path, str],
    command: Sequence[str],
    settings: Mapping[str, str] | None = None,
    over: Sequence[Path] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a command as root on the row's machine; what it changes there is gone afterwards.

    `shared` directories are seen there as well, `settings` are added to its environment. What is in the directories
    `over` lies over the root, but not in a container.
    """
    everything = {**_ENVIRONMENT, **(settings or {})}
    if row.container is not None:
        return _in_container(row, shared, command, everything)
    scratch = Path(tempfile.mkdtemp(prefix="machine-", dir=_scratch()))
    devices = {"TUN": row.tun, "FUSE": row.fuse}
    yes = {True: "yes", False: "no"}
    special = {
        "LOWER": ":".join(map(str, [*over, root_of(row)])),
        "SCRATCH": str(scratch),
        "SHARED": " ".join(f"{source}={target}" for source, target in shared.items()),
        "USER_NAMESPACES": yes[row.user_namespaces],
        "IPV6": yes[row.ipv6],
        **devices,
    }
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    try:
        return subprocess.run(
            [*enter, "sh", str(HERE / "enter.sh"), *command],
            env={**everything, **special},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(scratch)


def _in_container(
    row: Row, shared: Mapping[Path, str], command: Sequence[str], settings: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    image = f"harrow-machine:{root_of(row).name}"
    root = root_of(row)
    with locked(root.name):
        if subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode != 0:
            _import_image(root, image)
    arguments = ["docker", "run", "--rm", "--init", "--network=host", *(row.container or ())]
    arguments += [f"--env={name}={value}" for name, value in settings.items()]
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")  # whom this machine trusts
    for source, target in {bundle: str(bundle), Path("/etc/resolv.conf"): "/etc/resolv.conf", **shared}.items():
        arguments.append(f"--volume={source}:{target}")
    return subprocess.run(
        [*arguments, image, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def _import_image(root: Path, image: str) -> None:
    tar = ["tar", "--create", "--one-file-system", "--directory", str(root), "."]
    with subprocess.Popen(tar, stdout=subprocess.PIPE) as packing:
        subprocess.run(["docker", "import", "-", image], stdin=packing.stdout, capture_output=True, check=True)


def _scratch() -> Path:
    """Where changes go: not in a temporary file system, whose memory a machine would use up."""
    scratch = Path(os.environ.get("HARROW_MACHINES_SCRATCH", "/var/tmp"))
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    **{name: os.environ[name] for name in ("http_proxy", "https_proxy", "PIP_INDEX_URL") if name in os.environ},
}
