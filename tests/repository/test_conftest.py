"""`tests/conftest.py`: the default job is never skipped; tests that share a Spark session run in one process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import harness

ROOT = Path(harness.__file__).parents[1]


def pytest_of(directory: Path, files: dict[str, str], *options: str) -> str:
    """What pytest says of test files under the conftest of this folder and the marks of `pyproject.toml`."""
    (directory / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(directory)]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-rA", *options, str(directory)],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


SKIPPED = """
import pytest

@pytest.mark.default_job
def test_the_job():
    pytest.skip("no such device")

@pytest.mark.default_job
@pytest.mark.skipif(True, reason="no such program")
def test_the_other_job():
    pass

def test_an_extra():
    pytest.skip("no such device")
"""


def test_a_skip_hides_an_extra_and_never_the_default_job(tmp_path: Path) -> None:
    output = pytest_of(tmp_path, {"jobs": SKIPPED})
    assert "1 failed, 1 skipped, 1 error" in output, output
    message = "^expected the default job to be tested on every machine, found it skipped"
    assert len(re.findall(message, output, re.MULTILINE)) == 2, output


def test_the_default_job_is_not_left_out_of_make_test(tmp_path: Path) -> None:
    text = "import pytest\n\n@pytest.mark.slow\n@pytest.mark.default_job\ndef test_the_job():\n    pass\n"
    output = pytest_of(tmp_path, {"slow_job": text})
    assert (
        "expected the default job to be in `make test`, found it marked slow: test_slow_job.py::test_the_job" in output
    )


WHERE = """
import os
import pytest

@pytest.fixture
def spark():
    pass

@pytest.mark.parametrize("number", range(4))
def test_where({needs}number):
    print(__name__, "ran in", os.environ["PYTEST_XDIST_WORKER"])
"""


@pytest.mark.slow
def test_files_stay_together_and_so_do_all_that_share_the_session(tmp_path: Path) -> None:
    sharing, alone = WHERE.format(needs="spark, "), WHERE.format(needs="")
    files = {"one": sharing, "two": sharing, **{f"alone_{number}": alone for number in range(4)}}
    output = pytest_of(tmp_path, files, "--numprocesses", "2", "--dist", "loadfile")
    ran = re.findall(r"^test_(\w+) ran in (\w+)$", output, re.MULTILINE)
    workers = {name: {worker for other, worker in ran if other == name} for name in files}
    assert len(ran) == 4 * len(files), output
    assert all(len(where) == 1 for where in workers.values()), workers
    assert workers["one"] == workers["two"]
    assert len(set.union(*workers.values())) == 2, workers
