"""Probe datagrams: measures which links carry packets, and their loss, delay, duplication, reordering and rate.

`sample` probes between namespaces, from one process; a `Prober` is one side of links between machines.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from nemesis.capabilities.cluster import Endpoint, Link
from nemesis.capabilities.shapes import LinkSample

_HEADER = struct.Struct("!QIIQ")  # number of the probe, source, number of the datagram, when it was sent (ns)
_ROOM_BYTES = 65_536


@dataclass(frozen=True)
class SampleRequest:
    """The datagrams to send over each link."""

    links: Sequence[Link]
    count: int
    size: int
    timeout_s: float


def sample(
    sockets: Mapping[Endpoint, socket.socket],
    address: Callable[[Endpoint], tuple[str, int]],
    number: int,
    request: SampleRequest,
) -> LinkSample:
    """Send the datagrams of all links in turns, and collect arrivals until all are there or the timeout passes."""
    arrivals: dict[Link, list[tuple[int, int, int]]] = defaultdict(list)  # (datagram, sent at, arrived at), ns
    owners = {sockets[target]: target for _, target in request.links}
    poll = select.poll()
    by_descriptor = {ready.fileno(): ready for ready in owners}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)

    def collect(rest_s: float) -> bool:
        events = poll.poll(rest_s * 1000)
        for descriptor, _ in events:
            ready = by_descriptor[descriptor]
            payload = ready.recv(_ROOM_BYTES)
            if len(payload) < _HEADER.size:
                continue
            of, source, datagram, sent_ns = _HEADER.unpack_from(payload)
            if of == number:
                arrivals[source, owners[ready]].append((datagram, sent_ns, time.monotonic_ns()))
        return bool(events)

    filler = bytes(max(0, request.size - _HEADER.size))
    for datagram in range(request.count):
        for source, target in request.links:
            payload = _HEADER.pack(number, source, datagram, time.monotonic_ns()) + filler
            sockets[source].sendto(payload, address(target))
        collect(0)
    deadline = time.monotonic() + request.timeout_s
    wanted = request.count * len(request.links)
    while sum(map(len, arrivals.values())) < wanted and (left := deadline - time.monotonic()) > 0:
        collect(left)
    while collect(0.02):  # duplicates follow at once
        pass
    return summary(arrivals, wanted, request.size)


def summary(arrivals: Mapping[Link, Sequence[tuple[int, int, int]]], sent: int, size: int) -> LinkSample:
    """Summarize the arrivals of each link: (number of the datagram, send time, arrival time), times in ns."""
    everything = [arrival for link in arrivals.values() for arrival in link]
    delays = [(arrived_ns - sent_ns) / 1e6 for _, sent_ns, arrived_ns in everything]
    return LinkSample(
        sent=sent,
        arrived=sum(len({datagram for datagram, *_ in link}) for link in arrivals.values()),
        copies=len(everything),
        overtaken=sum(_overtaken([datagram for datagram, *_ in link]) for link in arrivals.values()),
        median_ms=median(delays) if delays else 0.0,
        kbit_per_s=max((_rate(link, size) for link in arrivals.values()), default=0.0),
    )


def _overtaken(datagrams: Sequence[int]) -> int:
    latest, count = -1, 0
    for datagram in datagrams:
        count += datagram < latest
        latest = max(latest, datagram)
    return count


def _rate(link: Sequence[tuple[int, int, int]], size: int) -> float:
    took_ns = link[-1][2] - link[0][2]
    return (len(link) - 1) * size * 8 * 1e6 / took_ns if took_ns > 0 else 0.0


_KEPT = 8
"""How many probes keep their arrivals."""

Arrival = tuple[int, int, int, int]
"""Source, number of the datagram, when it was sent and when it arrived (ns, each by its own side's monotonic clock)."""


class Prober:
    """Sends and receives on one socket. Safe to use from several threads."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._arrivals: defaultdict[int, list[Arrival]] = defaultdict(list)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="prober", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it receives."""
        return int(self._socket.getsockname()[1])

    def send(self, number: int, source: int, targets: Sequence[tuple[str, int]], count: int = 1, size: int = 0) -> None:
        """Send `count` datagrams of that size to each target, in turns."""
        filler = bytes(max(0, size - _HEADER.size))
        for datagram in range(count):
            for target in targets:
                # A rule that drops outgoing packets makes the send fail; for the probe the datagram is lost.
                with contextlib.suppress(PermissionError):
                    self._socket.sendto(
                        _HEADER.pack(number, source, datagram, time.monotonic_ns()) + filler, tuple(target)
                    )

    def await_arrivals(self, number: int, wanted: int, timeout_s: float, settle_s: float = 0.0) -> Sequence[Arrival]:
        """Wait for `wanted` arrivals of a probe or the timeout, then for further ones within `settle_s`."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._arrivals[number]) >= wanted, timeout_s)
            seen = -1
            while settle_s and len(self._arrivals[number]) != seen:
                seen = len(self._arrivals[number])
                self._changed.wait(settle_s)
            return tuple(self._arrivals[number])

    def close(self) -> None:
        """Stop receiving. Safe to call twice."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(
                socket.SHUT_RDWR
            )  # wakes the thread; raises on a datagram socket, which is not connected
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        while not self._closing.is_set():
            try:
                payload = self._socket.recv(_ROOM_BYTES)
            except OSError:
                if self._closing.is_set():
                    return
                continue
            if len(payload) < _HEADER.size:
                continue
            arrived_ns = time.monotonic_ns()
            number, source, datagram, sent_ns = _HEADER.unpack_from(payload)
            with self._changed:
                self._arrivals[number].append((source, datagram, sent_ns, arrived_ns))
                for old in sorted(self._arrivals)[:-_KEPT]:
                    del self._arrivals[old]
                self._changed.notify_all()
