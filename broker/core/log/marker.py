"""The file that says "the last stop was a clean one" (BL-8, BL-9).

It is written last of all when stopping and deleted first of all when starting. It carries the broker epoch of the life
that ended, by which the controller knows it again (RG-5).
"""

from __future__ import annotations

import json

from broker.core.files import Files

FILE_NAME = ".kafka_cleanshutdown"


def read_clean_shutdown(files: Files) -> int | None:
    """Broker epoch of the life that was stopped cleanly; None if there was no clean stop or the file is garbage."""
    try:
        content = json.loads(files.read(FILE_NAME, 0, files.size(FILE_NAME)))
    except ValueError:
        return None
    if not isinstance(content, dict) or content.get("version") != 0:
        return None
    epoch = content.get("brokerEpoch")
    return epoch if type(epoch) is int else None


def write_clean_shutdown(files: Files, broker_epoch: int) -> None:
    """Mark this stop as clean. The logs must have been closed cleanly before."""
    files.replace(FILE_NAME, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode())


def delete_clean_shutdown(files: Files) -> None:
    """Take the mark away, before any log is opened for writing."""
    files.delete(FILE_NAME)
