"""Installs the package on a machine, once for each version."""

from __future__ import annotations

import platform
import shlex
import sys

from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.connection.package import COMPILED_PLACE, package
from harness.environments.ssh.connection.ssh import Connection
from harness.environments.ssh.fleet.facts import Facts

_SCRIPT = """
set -e
place=$1
[ -e "$place" ] && { cat >/dev/null; exit 0; }
umask 022
mkdir -p "${place%/*}"
fresh=$(mktemp -d "$place.XXXXXX")
chmod 755 "$fresh"
tar -xzf - -C "$fresh"
mv -T "$fresh" "$place" 2>/dev/null || { rm -rf "$fresh"; [ -e "$place" ]; }
"""


def install(connection: Connection, facts: Facts) -> str:
    """Install this version of the package if it is missing; returns its `PYTHONPATH`.

    Raises `EnvironmentFailed`.
    """
    host = connection.host
    ours = (facts.python, facts.machine) == (sys.version_info[:2], platform.machine())
    if "crc32c" not in facts.has and not ours:
        raise EnvironmentFailed(
            f"expected the Python package crc32c on host {host.name}, found none; apt-get install python3-crc32c there"
        )
    place = f"{host.directory}/packages/{package().digest}"
    path = place if "crc32c" in facts.has else f"{place}:{place}/{COMPILED_PLACE}"
    if package().digest in facts.packages:
        return path
    answer = connection.run(f"sh -c {shlex.quote(_SCRIPT)} sh {shlex.quote(place)}", package().archive, as_root=True)
    if answer.status != 0:
        raise EnvironmentFailed(f"expected to install Harrow in {place} on host {host.name}, found: {answer.complaint}")
    return path
