"""Measures loss, delay, duplication, reordering and rate of links with probe datagrams."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from nemesis.capabilities.cluster import Endpoint, Link
from nemesis.capabilities.shapes import LinkSample

_HEADER = struct.Struct("!QIIQ")  # number of the sample, source, number of the datagram, when it was sent (ns)
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
