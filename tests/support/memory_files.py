"""A disk in memory that can crash and fail, for tests of the core."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.ports.files import StorageError

NEVER_SYNCED = -1


class _File:
    __slots__ = ("data", "durable")

    def __init__(self, data: bytes = b"", durable: int = NEVER_SYNCED) -> None:
        self.data = bytearray(data)
        self.durable = durable


class MemoryFiles:
    """`Files` in memory. `fail`, when set, is asked before each call but `size` and refuses it by returning True."""

    def __init__(self) -> None:
        self.files: dict[str, _File] = {}
        self.fail: Callable[[str, str], bool] | None = None
        self.syncs: list[str] = []

    # --- Files ---------------------------------------------------------------------------------------------------

    def list(self, directory: str) -> list[str]:
        self._check("list", directory)
        prefix = f"{directory}/" if directory else ""
        return sorted({name[len(prefix) :].split("/")[0] for name in self.files if name.startswith(prefix)})

    def size(self, name: str) -> int:
        return len(self.files[name].data) if name in self.files else 0

    def read(self, name: str, position: int, size: int) -> bytes:
        self._check("read", name)
        return bytes(self.files[name].data[position : position + size]) if name in self.files else b""

    def append(self, name: str, data: bytes) -> None:
        self._check("append", name)
        self.files.setdefault(name, _File()).data += data

    def truncate(self, name: str, size: int) -> None:
        self._check("truncate", name)
        if name not in self.files:
            raise StorageError(f"truncate {name}: ENOENT", name)
        file = self.files[name]
        del file.data[size:]
        file.durable = min(file.durable, size)

    def replace(self, name: str, data: bytes) -> None:
        self._check("replace", name)
        self.files[name] = _File(data, len(data))

    def rename(self, name: str, new_name: str) -> None:
        self._check("rename", name)
        for old in [old for old in self.files if old == name or old.startswith(f"{name}/")]:
            self.files[new_name + old[len(name) :]] = self.files.pop(old)

    def delete(self, name: str) -> None:
        self._check("delete", name)
        for old in [old for old in self.files if old == name or old.startswith(f"{name}/")]:
            del self.files[old]

    def sync(self, name: str) -> None:
        self._check("sync", name)
        self.syncs.append(name)
        if name in self.files:
            self.files[name].durable = len(self.files[name].data)

    def _check(self, operation: str, name: str) -> None:
        if self.fail is not None and self.fail(operation, name):
            raise StorageError(f"{operation} {name}: EIO", name)

    # --- faults --------------------------------------------------------------------------------------------------

    def copy(self) -> MemoryFiles:
        """An independent disk with the same contents."""
        twin = MemoryFiles()
        for name, file in self.files.items():
            twin.files[name] = _File(bytes(file.data), file.durable)
        return twin

    def crash(self, keep: Callable[[str, int, int], int] | None = None) -> MemoryFiles:
        """The disk as the next start finds it. Every file keeps its durable bytes, or as many as `keep` says
        of (name, durable size, size); files that never were synced and keep nothing are gone.
        """
        after = MemoryFiles()
        for name, file in sorted(self.files.items()):
            durable = max(file.durable, 0)
            kept = durable if keep is None else keep(name, durable, len(file.data))
            if kept or file.durable != NEVER_SYNCED:
                after.files[name] = _File(bytes(file.data[:kept]), kept)
        return after
