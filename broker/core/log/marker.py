"""Reads and writes the clean-shutdown file (BL-8, BL-9).

It is the last file written at a stop and the first deleted at a start. It holds the broker epoch of the incarnation
that stopped, by which the controller recognizes it (RG-5).

With several log directories each has one, and all of them must be valid. To detect a directory that is no longer
in `log.dirs`, each then also holds the number of directories; Kafka ignores that field.
"""

from __future__ import annotations

import json

from broker.core.ports.files import Files, name_in

FILE_NAME = ".kafka_cleanshutdown"


def read_clean_shutdown(files: Files, directory: int = 0, directories: int = 1) -> int | None:
    """Broker epoch of the incarnation that stopped cleanly; None if the stop was not clean or the file is garbage.

    `directory` is the index in `log.dirs` of the one to read, `directories` their number.
    """
    name = name_in(directory, FILE_NAME)
    try:
        content = json.loads(files.read(name, 0, files.size(name)))
    except ValueError:
        return None
    if not isinstance(content, dict) or content.get("version") != 0 or content.get("logDirs", 1) != directories:
        return None
    epoch = content.get("brokerEpoch")
    return epoch if type(epoch) is int else None


def write_clean_shutdown(files: Files, broker_epoch: int, directories: int = 1) -> None:
    """BL-8: mark this stop as clean, in every directory. The logs must have been closed cleanly before."""
    fields = {"version": 0, "brokerEpoch": broker_epoch}
    content = json.dumps(fields if directories == 1 else fields | {"logDirs": directories}).encode()
    for directory in range(directories):
        files.replace(name_in(directory, FILE_NAME), content)


def delete_clean_shutdown(files: Files, directory: int = 0) -> None:
    """BL-9: delete the marker, before any log is opened for writing."""
    files.delete(name_in(directory, FILE_NAME))
