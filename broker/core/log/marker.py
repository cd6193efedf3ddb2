"""The file that says "the last stop was a clean one" (BL-8, BL-9).

It is written last of all when stopping and deleted first of all when starting. It carries the broker epoch of the life
that ended, by which the controller knows it again (RG-5).

With several log directories each has one, and only all of them together count. So that a directory which is no longer
in `log.dirs` is missed, each then also says how many there were; Kafka passes over that field.
"""

from __future__ import annotations

import json

from broker.core.ports.files import Files, name_in

FILE_NAME = ".kafka_cleanshutdown"


def read_clean_shutdown(files: Files, directory: int = 0, directories: int = 1) -> int | None:
    """Broker epoch of the life that was stopped cleanly; None if there was no clean stop or the file is garbage.

    `directory` is the place in `log.dirs` of the one to look at, `directories` how many there are.
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
    """BL-9: take the mark away, before any log is opened for writing."""
    files.delete(name_in(directory, FILE_NAME))
