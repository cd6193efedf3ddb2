"""An installation of Harrow for reduced machines: made once, laid over their roots, and of this checkout's sources."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import tomllib
from pathlib import Path

from tests.machines.doctor.visit import USER_ID
from tests.machines.machine import in_machine
from tests.machines.roots import cache, locked
from tests.machines.rows import Row
from tests.machines.wheels import wheels_of

CHECKOUT = Path(__file__).parents[3]
_PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
PACKAGES = tuple(name.rstrip("*") for name in _PROJECT["tool"]["setuptools"]["packages"]["find"]["include"])
EXTRAS = "clients,compiled,docker,fuse,ssh,zookeeper"

_INSTALL = f"""
set -e
mkdir /harrow
cd /checkout
cp -r pyproject.toml README.md LICENSE {" ".join(PACKAGES)} /harrow
python3 -m venv /made/venv
ln -s /made/venv /venv
/venv/bin/pip install -q --editable '/harrow[{EXTRAS}]'
grep -rl /made/venv /made/venv/bin | xargs sed -i s:/made/venv:/venv:
chown -R {USER_ID}:{USER_ID} /made/venv
"""


def installation() -> Path:
    """A directory to lay over a root: `venv` in it is a virtual environment that the new user owns.

    Harrow's sources are looked for in /harrow.
    """
    wanted = json.dumps(_PROJECT["project"]) + _INSTALL
    layer = cache() / f"doctor-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if not layer.exists():
        row = Row("installing", "installs Harrow")
        with locked(layer.name):
            if not layer.exists():  # another has made it meanwhile
                _make(layer, row, wheels_of(row, CHECKOUT))
    return layer


def _make(layer: Path, row: Row, wheels: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=".doctor-", dir=layer.parent))
    unfinished.chmod(0o755)
    shared = {unfinished: "/made", CHECKOUT: "/checkout", wheels: "/wheels"}
    done = in_machine(row, shared, ["sh", "-c", _INSTALL], {"PIP_FIND_LINKS": "/wheels"})
    if done.returncode != 0:
        shutil.rmtree(unfinished)
        raise RuntimeError(f"expected to install Harrow, found: {done.stderr[-2000:]}")
    unfinished.rename(layer)
