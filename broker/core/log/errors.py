"""Errors of a log, by type."""

from __future__ import annotations

from broker.core.ports.files import StorageError


class CorruptLog(StorageError):
    """A log file contradicts its index, its name or its neighbours: the directory has failed (TR-6)."""


class AppendError(Exception):
    """Replicated batches that do not fit the end of this log (TR-6). Nothing of them was appended."""


class OffsetMismatch(AppendError):
    """The batches do not begin at the log end offset, or leave a gap among themselves."""


class EpochOutOfRange(AppendError):
    """A batch's leader epoch is below that of the record before it, or above the current one (KAFKA-18723)."""


class CorruptBatch(AppendError):
    """A replicated batch cannot be read or fails its checksum."""
