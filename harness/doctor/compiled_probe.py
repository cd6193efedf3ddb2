"""Probes what the compiled copy of the simulator needs, by compiling a small extension module and loading it."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from common.directories import cache_directory
from harness.doctor.remedies.programs import COMPILER, COPIES, PYTHON_HEADERS
from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Cause, Missing, Unfit
from harness.environments.machine.feature_probes import ProbeResult, attempt
from simulation.runs import compiling
from simulation.runs.compiled_copy import lacking

_SOURCE = """
#include <Python.h>
static struct PyModuleDef probe = {PyModuleDef_HEAD_INIT, "probe", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_probe(void) { return PyModule_Create(&probe); }
"""
_TIMEOUT_S = 100.0


def try_compiled() -> ProbeResult:
    """Compile and load an extension module in the directory of compiled copies; report whether there is a copy."""

    def probe() -> str:
        store = cache_directory() / "compiled"
        if (lack := lacking(store)) is not None:
            causes: dict[str, Cause] = {
                "Python package": Missing("Python package", lack.name),
                "program": Missing("program", COMPILER),
                "header": Missing("header", PYTHON_HEADERS),
                "directory": Unfit(COPIES),
            }
            raise EnvironmentFailed(str(lack), causes[lack.kind])
        with tempfile.TemporaryDirectory(prefix=".probe-", dir=store) as directory:
            _compile(Path(directory))
        name = compiling.digest(compiling.SIMULATION)
        there = (store / name).is_dir() and compiling.failure_of(store, name) is None
        found = "there is a copy of these sources" if there else "no copy of these sources yet"
        return f"mypy {importlib.metadata.version('mypy')} and a C compiler; {found}"

    return attempt("compiled", probe)


def _compile(directory: Path) -> None:
    (directory / "probe.c").write_text(_SOURCE)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    library = directory / f"probe{sysconfig.get_config_var('EXT_SUFFIX')}"
    headers = sysconfig.get_paths()["include"]
    command = [compiler, "-shared", "-fPIC", f"-I{headers}", "-o", str(library), str(directory / "probe.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    if done.returncode != 0:
        told = " ".join(done.stderr.split())
        raise EnvironmentFailed(
            f"expected {compiler} to compile an extension module, found: {told}",
            Missing("header", PYTHON_HEADERS) if ".h: No such file" in told else None,
        )
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    loading = [sys.executable, "-c", "import probe"]
    loaded = subprocess.run(
        loading, env=environment, cwd=directory, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    if loaded.returncode != 0:
        told = (loaded.stderr.strip().splitlines() or ["nothing"])[-1]
        raise EnvironmentFailed(f"expected Python to load an extension module, found: {told}")
