"""The error of a probe decides which cause and remedy it names."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.doctor.compiled_probe import try_compiled
from harness.doctor.remedies.table import explain
from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Missing
from harness.environments.machine import feature_probes, wall_clock
from harness.environments.machine.feature_probes import attempt
from simulation.runs import compiled_copy, compiling

CHECKOUT = Path(harness.__file__).parents[1]
REFUSING = CHECKOUT / "tests" / "machines" / "doctor" / "refusing.py"


def test_the_probe_itself_detects_a_filter_of_system_calls() -> None:
    ask = (
        "import json\n"
        "from harness.environments.causes import to_json\n"
        "from harness.environments.machine.feature_probes import try_namespaces\n"
        "result = try_namespaces()\n"
        "known = result.explanation\n"
        "print(json.dumps([to_json(result.cause), known and known.cause, known and known.remedy.text]))\n"
    )
    command = [sys.executable, REFUSING, "unshare", "EPERM", sys.executable, "-c", ask]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    met, cause, remedy = json.loads(done.stdout)
    kind = "CLONE_NEWNET" if os.geteuid() == 0 else "CLONE_NEWUSER"
    assert met == {"met": "Refused", "number": errno.EPERM, "what": f"unshare({kind})"}
    assert cause in ("filtered", "confined")
    assert "seccomp=unconfined" in remedy or "--privileged" in remedy


def _compiler(directory: Path, script: str) -> Path:
    compiler = directory / "compiler"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    return compiler


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo 'stdlib.h: No such file or directory' >&2; exit 1", Missing("header", "headers of the C library")),
        ('case "$*" in *-E*) exit 0;; *) echo "internal error" >&2; exit 1;; esac', None),
    ],
)
def test_a_compiler_without_headers_is_distinguished_from_one_that_fails(
    script: str, cause: Missing | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(_compiler(tmp_path, script)))
    with pytest.raises(EnvironmentFailed) as caught:
        wall_clock.compile_library(tmp_path / "clock.so")
    assert caught.value.cause == cause


def test_without_a_compiler_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wall_clock, "find_compiler", lambda: None)
    result = feature_probes.try_clock.__wrapped__()
    assert result.cause == Missing("program", "C compiler")
    assert result.explanation == explain("clock", result.cause)
    assert "gcc" in str(result)


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo 'fatal error: Python.h: No such file or directory' >&2; exit 1", Missing("header", "headers of Python")),
        ("echo 'internal error' >&2; exit 1", None),
        ('while [ "$1" != -o ]; do shift; done; echo nothing > "$2"', None),
    ],
)
def test_a_compiler_that_makes_no_extension_module_is_noticed(
    script: str, cause: Missing | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", f"{_compiler(tmp_path, script)} -pthread")
    result = try_compiled()
    assert not result.available
    assert result.cause == cause


def test_the_probe_of_the_compiled_simulator_looks_for_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = tmp_path / "harrow" / "compiled"
    name = compiling.digest(compiling.SIMULATION)
    assert str(try_compiled()).endswith("no copy of these sources yet")
    (store / name).mkdir()
    assert str(try_compiled()).endswith("there is a copy of these sources")
    compiling.reject(store, name, "seed 2 differs")
    assert str(try_compiled()).endswith("no copy of these sources yet")
    assert sorted(path.name for path in store.iterdir()) == [name, f"{name}.failed"]
    monkeypatch.setenv("CC", "no-such-compiler")
    assert try_compiled().cause == Missing("program", "C compiler")
    monkeypatch.setattr(compiled_copy.importlib.util, "find_spec", lambda module: None)
    assert try_compiled().cause == Missing("Python package", "mypy")


def test_a_probe_returns_the_cause_and_the_remedy_in_one_line() -> None:
    def refused() -> str:
        raise PermissionError(errno.EACCES, "Permission denied", "/dev/net/tun")

    result = attempt("shaping", refused)
    assert str(result).startswith(
        "this user may not open `/dev/net/tun` ([Errno 13] Permission denied: '/dev/net/tun'); "
    )
    assert "chmod a+rw /dev/net/tun" in str(result)
    assert str(attempt("shaping", lambda: "works")) == "works"
