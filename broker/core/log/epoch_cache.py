"""Maps leader epochs to their start offsets, to find where two logs diverge (§12.1, KIP-101, KIP-279)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise

from broker.core.ports.files import Files

FILE_NAME = "leader-epoch-checkpoint"


class EpochCache:
    """Ordered entries (epoch, start offset), strictly increasing in both; changes are durable when a method returns,
    but for `begin`.

    EC-4 would let truncations wait for a later write. They are rare, and a stale entry below a log end that grew
    again could not be told from a true one, so they are durable at once too.

    An epoch without records is worth nothing after a crash: opening a log drops the entries at its end. So the epoch
    that a leader begins is written together with its first record, before that record; a broker that comes to lead
    hundreds of partitions at once does not stand still for as many fsyncs (KAFKA-15046).
    """

    __slots__ = ("_epochs", "_files", "_name", "_starts", "_written_before")

    def __init__(self, files: Files, directory: str, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._files = files
        self._name = f"{directory}/{FILE_NAME}"
        self._written_before: int | None = None  # if the last epoch has begun without a record: the one it followed
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self._assign(epoch, start)

    @classmethod
    def load(cls, files: Files, directory: str) -> EpochCache | None:
        """The cache as it was last written; None if there is no file or it cannot be understood."""
        name = f"{directory}/{FILE_NAME}"
        entries = _parse(files.read(name, 0, files.size(name)))
        return None if entries is None else cls(files, directory, entries)

    def copy(self, files: Files) -> EpochCache:
        """The same cache over another disk."""
        twin = EpochCache.__new__(EpochCache)
        twin._files = files
        twin._name = self._name
        twin._written_before = self._written_before
        twin._epochs = self._epochs.copy()
        twin._starts = self._starts.copy()
        return twin

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """All (epoch, start offset), oldest first."""
        return tuple(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        """The highest epoch known, -1 if none is."""
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: int, start: int) -> None:
        """EC-1, EC-4: from `start` on, offsets belong to `epoch`, unless that is the latest epoch already; durable."""
        if self._assign(epoch, start) or self._written_before is not None:
            self._written_before = None
            self._write()

    def begin(self, epoch: int, end: int) -> None:
        """EC-1: the same for an epoch that begins at the end of the log and has no record yet; not durable."""
        written = self.written_epoch_at(end)
        if self._assign(epoch, end):
            self._written_before = written

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int] | None:
        """EC-2: the largest epoch not above `epoch`, and where it ends (exclusive) in a log that ends at `log_end`.

        None if `epoch` is unknown (-1) or above the latest.
        """
        epochs = self._epochs
        if epoch < 0 or not epochs or epoch > epochs[-1]:
            return None
        if epoch == epochs[-1]:
            return epoch, log_end
        following = bisect_right(epochs, epoch)
        if following == 0:
            return epoch, self._starts[0]
        return epochs[following - 1], self._starts[following]

    def epoch_at(self, offset: int) -> int:
        """Leader epoch of the record at `offset`, -1 if that is below the first entry."""
        following = bisect_right(self._starts, offset)
        return self._epochs[following - 1] if following else -1

    def written_epoch_at(self, offset: int) -> int:
        """The same, not counting an epoch that has begun and has no record."""
        if self._written_before is not None and offset >= self._starts[-1]:
            return self._written_before
        return self.epoch_at(offset)

    def truncate_from_end(self, end: int) -> None:
        """EC-3: drop what begins at or after `end`."""
        kept = bisect_left(self._starts, end)
        if kept < len(self._starts):
            del self._epochs[kept:], self._starts[kept:]
            self._written_before = None
            self._write()

    def truncate_from_start(self, start: int) -> None:
        """EC-3: drop epochs that lie wholly below `start`; the first that remains begins at `start` at the earliest."""
        first = bisect_right(self._starts, start) - 1
        if first < 0 or (first == 0 and self._starts[0] == start):
            return
        del self._epochs[:first], self._starts[:first]
        self._starts[0] = start
        self._write()

    def replace(self, entries: Iterable[tuple[int, int]]) -> None:
        """Put other entries in place of all; writes only if they differ."""
        before = self.entries
        self._epochs, self._starts = [], []
        for epoch, start in entries:
            self._assign(epoch, start)
        self._written_before = None
        if self.entries != before:
            self._write()

    def _assign(self, epoch: int, start: int) -> bool:
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch:
            return False
        while epochs and (epochs[-1] > epoch or starts[-1] >= start):
            epochs.pop()
            starts.pop()
        if not epochs or epochs[-1] != epoch:  # else an epoch goes on after one of its own leader that got no record
            epochs.append(epoch)
            starts.append(start)
        return True

    def _write(self) -> None:
        written = self.entries
        if self._written_before is not None:
            written = written[:-1]
            if not written and self._written_before >= 0:
                written = ((self._written_before, self._starts[0]),)
        lines = ["0", str(len(written)), *(f"{epoch} {start}" for epoch, start in written)]
        self._files.replace(self._name, ("\n".join(lines) + "\n").encode())


def _parse(data: bytes) -> list[tuple[int, int]] | None:
    try:
        version, count, *lines = data.decode().splitlines()
        entries = [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines)]
        expected = int(count)
    except ValueError:
        return None
    ordered = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
    usable = version == "0" and len(entries) == expected and ordered
    return entries if usable and (not entries or (entries[0][0] >= 0 and entries[0][1] >= 0)) else None


def truncation_offset(own: EpochCache, own_end: int, diverging_epoch: int, diverging_end: int) -> int:
    """TR-1: the new log end offset of a follower whose leader reported that `diverging_epoch` ends at `diverging_end`.

    When the follower's own nearest epoch is older than the leader's, this is only a step: the next fetch names that
    older epoch and is answered with the next step, until the two logs agree.

    ```
    leader    1 1 2 2            fetch(4, last epoch 3) → diverging (2, 4)
    follower  1 1 3 3            own nearest epoch to 2 is 1, which ends at 2 → cut to 2
    ```
    """
    found = own.end_offset(diverging_epoch, own_end)
    if found is None:
        return min(diverging_end, own_end)
    epoch, end = found
    return min(end, diverging_end, own_end) if epoch == diverging_epoch else end
