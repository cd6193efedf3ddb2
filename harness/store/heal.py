"""Cleans up after a run whose harness died: `harrow heal`.

The journal lists what the run made. Only what can be identified safely is removed: a process that carries the run's
mark in its environment, or has the pid and the start time from the journal; a mount or an image at the path from the
journal. So nothing of others is touched, and healing twice does no more than healing once.

Most of it ends by itself: helper processes end when the harness does, nodes and clients end with the supervisor, and
network namespaces, routing rules, private mounts and loop devices end with the last process in them.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.environments.machine.kernel import linux, process_identity
from harness.environments.storage.disks import unmount_when_idle
from harness.environments.storage.fuse import put_back
from harness.store.journal import FILE_NAME, Entry, is_finished, mark_healed, read_journal

_END_TIMEOUT_S = 10.0


def heal(root: Path) -> list[str]:
    """Remove what unfinished runs left, in a run's directory or in a whole store; return a line for each removed item.

    A run whose harness is alive is left alone. There are no lines if there is nothing to remove.
    """
    lines = []
    for run_directory in _runs(root):
        lines += _heal_run(run_directory)
    return lines


def _runs(root: Path) -> Iterator[Path]:
    """Run directories: `root` itself, those in it, `store/runs/<run>`, those of suites; links are not followed."""
    if (root / FILE_NAME).exists():
        yield root
        return
    patterns = ("*", "*/*", "suites/*/*/*/*")
    for journal in sorted(journal for pattern in patterns for journal in root.glob(f"{pattern}/{FILE_NAME}")):
        if not any(parent.is_symlink() for parent in (journal.parent, journal.parent.parent)):
            yield journal.parent


def _heal_run(run_directory: Path) -> list[str]:
    entries = list(read_journal(run_directory))
    if is_finished(entries):
        return []
    name = run_directory.name
    harness = next((entry for entry in entries if entry["kind"] == "opened"), None)
    if harness is not None and harness["pid"] != os.getpid() and _same_process(harness):
        return [f"{name}: left alone, its harness is alive as process {harness['pid']}"]
    lines = [
        *_end_processes(entries),
        *_heal_hosts(entries),
        *_heal_existing(entries),
        *_remove_containers(entries),
        *_unmount(entries),
        *_delete(entries),
    ]
    mark_healed(run_directory)
    return [f"{name}: {line}" for line in lines] or [f"{name}: nothing was left"]


def _same_process(entry: Entry) -> bool:
    return entry.get("start_time") is not None and process_identity.exists(entry["pid"], entry["start_time"])


def _end_processes(entries: Sequence[Entry]) -> Iterator[str]:
    """Kill the processes that carry the run's mark, and those in the journal that are still the same processes."""
    what = {entry["pid"]: entry["what"] for entry in entries if entry["kind"] == "process" and _same_process(entry)}
    for entry in entries:
        if entry["kind"] == "run":
            for pid in process_identity.of_run(entry["token"]):
                what.setdefault(pid, "helper process")
    ours = {pid: started for pid in what if (started := process_identity.start_time(pid)) is not None}
    for pid, started in ours.items():
        _kill(pid, started)
    process_identity.wait_until(lambda: not any(process_identity.exists(*one) for one in ours.items()), _END_TIMEOUT_S)
    for pid, started in ours.items():
        yield f"{what[pid]} {'does not end' if process_identity.exists(pid, started) else 'killed'}, process {pid}"


def _kill(pid: int, started: int) -> None:
    """Send SIGKILL to exactly this process: the descriptor still refers to it if its pid is used again."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if process_identity.exists(pid, started):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:  # it has ended in the meantime
        return
    finally:
        os.close(descriptor)


def _remove_containers(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        if entry["kind"] == "containers":
            from harness.environments.docker import engine

            for name in engine.remove_containers(engine.connect(), entry["token"]):
                yield f"container {name} removed"


def _heal_hosts(entries: Sequence[Entry]) -> Iterator[str]:
    hosts = [entry for entry in entries if entry["kind"] == "ssh"]
    token = next((entry["token"] for entry in entries if entry["kind"] == "run"), None)
    if hosts and token is not None:
        from harness.environments.ssh.machine import heal_hosts

        yield from heal_hosts(token, hosts)


def _heal_existing(entries: Sequence[Entry]) -> Iterator[str]:
    """Heal the nodes that hooks hurt, and remove the run's topic, in a cluster that the run did not start."""
    from harness.environments.existing.leftovers import heal_cluster

    yield from heal_cluster(entries)


def _unmount(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        if entry["kind"] == "disk" and linux.is_mounted(Path(entry["mount_point"])):
            unmount_when_idle(Path(entry["mount_point"]))
            yield f"{entry['mount_point']} unmounted"
        if entry["kind"] == "fuse" and (backing := Path(entry["backing"])).exists():
            put_back(backing, Path(entry["mount_point"]))
            yield f"{entry['mount_point']} unmounted, its files kept"


def _delete(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        if entry["kind"] == "disk" and (image := Path(entry["image"])).exists():
            image.unlink()
            yield f"{image} deleted"
        if entry["kind"] == "run" and (sockets := Path(entry["sockets"])).exists():
            shutil.rmtree(sockets)
            yield f"{sockets} deleted"
