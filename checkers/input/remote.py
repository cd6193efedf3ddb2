"""Prepares remote runs for checking: on any file system that Spark has a driver for, named by a URI.

The small tables of such a run are copied into a local directory; of its large tables only the footers are read, and the
directory gets a list of their parts (`history/<table>/remote.json`), which Spark reads remotely. The directory can
then be checked like any other run; results are written into it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from checkers.input.tables import LARGE_TABLES, REMOTE_PARTS, schema_problem
from history.parts import without_copies
from history.schema import TABLES

_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_MAGIC = b"PAR1"
_TAIL = 8  # length of the footer, then the magic
_FOOTER_MAX = 64 << 20


class RemoteRunError(Exception):
    """A location cannot be read, or holds no run. The message is one line: what was expected, what was found."""


def is_remote(location: str) -> bool:
    """Whether `location` is a URI and no path of this machine."""
    return _URI.match(location) is not None


def bring(spark: SparkSession, uri: str, into: Path) -> Path:
    """Make a directory in `into` that represents the run at `uri`, new each time; return it.

    Raises `RemoteRunError` if it cannot be read, `OSError` if the directory cannot be written.
    """
    files = _Files(spark)
    source = uri.rstrip("/")
    directory = into / f"{source.rpartition('/')[2]}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"
    tables = {table: files.parts(f"{source}/history/{table}") for table in TABLES}
    if not any(tables.values()):
        raise RemoteRunError(f"{uri} holds no run: expected tables in {source}/history")
    if directory.exists():
        shutil.rmtree(directory)
    for table, parts in tables.items():
        location = directory / "history" / table
        location.mkdir(parents=True)
        if table in LARGE_TABLES:
            (location / REMOTE_PARTS).write_text(
                json.dumps([files.described(part, TABLES[table]) for part in parts], indent=1)
            )
        else:
            for part in parts:
                files.copy(part, location / part.rpartition("/")[2])
    return directory


class _Files:
    """The file systems of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._java: Any = context._jvm
        self._settings: Any = context._jsc.hadoopConfiguration()

    def parts(self, directory: str) -> list[str]:
        """Return the part files in a directory, sorted; none if there is no such directory."""
        try:
            system, path = self._at(directory)
            found = [entry.getPath().toString() for entry in system.listStatus(path)] if system.exists(path) else []
        except Py4JError as error:
            raise RemoteRunError(f"{directory} cannot be read: {_reason(error)}") from error
        of_name = {location.rpartition("/")[2]: location for location in found}
        return [of_name[name] for name in without_copies(of_name) if re.fullmatch(r"part-.*\.parquet", name)]

    def copy(self, source: str, target: Path) -> None:
        """Copy a file to this machine."""
        try:
            system, path = self._at(source)
            system.copyToLocalFile(
                False, path, self._java.org.apache.hadoop.fs.Path(f"file://{target.resolve()}"), True
            )
        except Py4JError as error:
            raise RemoteRunError(f"{source} cannot be read: {_reason(error)}") from error

    def described(self, part: str, schema: pa.Schema) -> dict[str, Any]:
        """Describe a part for the list: its URI, and how many rows its footer promises, or why it cannot be used."""
        try:
            footer = pq.ParquetFile(pa.BufferReader(self._footer(part)))
        except (Py4JError, pa.ArrowException, ValueError) as error:
            return {"uri": part, "problem": _reason(error)}
        problem = schema_problem(footer.schema_arrow, schema)
        return {"uri": part, "rows": footer.metadata.num_rows} | ({} if problem is None else {"problem": problem})

    def _footer(self, part: str) -> bytes:
        """Return a Parquet file with this part's footer and no data."""
        system, path = self._at(part)
        length = system.getFileStatus(path).getLen()
        stream = system.open(path)
        try:
            tail = self._read(stream, length - _TAIL, _TAIL)
            size = int.from_bytes(tail[:4], "little")
            if tail[4:] != _MAGIC or not 0 < size <= min(_FOOTER_MAX, length - _TAIL - len(_MAGIC)):
                raise ValueError("no footer of Parquet at its end")
            return _MAGIC + self._read(stream, length - _TAIL - size, size) + tail
        finally:
            stream.close()

    def _read(self, stream: Any, position: int, size: int) -> bytes:  # noqa: ANN401 (a Java object)
        if position < 0:
            raise ValueError("too short for a footer of Parquet")
        stream.seek(position)
        return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream, size))

    def _at(self, location: str) -> tuple[Any, Any]:
        path = self._java.org.apache.hadoop.fs.Path(location)
        return path.getFileSystem(self._settings), path


def _reason(error: Exception) -> str:
    """Return the first line of a Java or Python error, without its stack."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString() if java is not None else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
