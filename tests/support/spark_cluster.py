"""A Spark cluster of this machine: a master and its workers, started by a test and stopped by it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from checkers.spark import find_java

READY_S = 300.0
UNTUNED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""The optimizing compiler, of each of five virtual machines, costs more than the small jobs of a test."""


@dataclass(frozen=True)
class Daemon:
    """A daemon of Spark, and the file that it logs to."""

    process: subprocess.Popen[bytes]
    log: Path


@dataclass(frozen=True)
class Cluster:
    """A master, by its URL, and its workers."""

    master: str
    manager: Daemon
    workers: tuple[Daemon, ...]


@contextmanager
def standalone(scratch: Path) -> Iterator[str]:
    """A master and two workers of this machine; the master's URL."""
    with cluster(scratch, workers=2) as made:
        yield made.master


@contextmanager
def cluster(scratch: Path, workers: int, memory: str = "1g", tuning: str = UNTUNED) -> Iterator[Cluster]:
    """A master and workers of this machine, each with one core. `tuning`: options of every virtual machine."""
    port = free_port()
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        manager = stack.enter_context(
            started(scratch / "master", "master.Master", [*common, "--port", str(port)], tuning)
        )
        of_worker = [*common, "--cores", "1", "--memory", memory, master]
        made = [
            stack.enter_context(started(scratch / f"worker-{number}", "worker.Worker", of_worker, tuning))
            for number in range(workers)
        ]
        deadline = time.monotonic() + READY_S
        while len(re.findall("Registering worker", manager.log.read_text())) < workers:
            assert time.monotonic() < deadline, manager.log.read_text()[-2_000:]
            time.sleep(0.2)
        yield Cluster(master, manager, tuple(made))


@contextmanager
def started(directory: Path, name: str, arguments: list[str], tuning: str) -> Iterator[Daemon]:
    """Start a daemon of Spark, and stop it."""
    directory.mkdir()
    log = directory / "log"
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    java = find_java().home / "bin" / "java"
    command = [
        str(java),
        "-cp",
        str(jars),
        "-Xmx256m",
        "-Dspark.master.rest.enabled=false",
        f"org.apache.spark.deploy.{name}",
        *arguments,
    ]
    if name.startswith("worker"):
        command[-1:-1] = ["--work-dir", str(directory)]
    environment = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent), "JAVA_HOME": str(find_java().home)}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}  # as its own scripts would find out
    environment["JAVA_TOOL_OPTIONS"] = tuning  # which a worker hands on to its executors
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
    try:
        yield Daemon(process, log)
    finally:
        process.terminate()
        process.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
