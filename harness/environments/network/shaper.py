"""The user-space shaper: delays, loses, duplicates, reorders, limits and resets the packets of shaped links.

    python -m harness.environments.network.shaper TUN CONTROL

TUN is a descriptor of an interface in the switch's namespace, CONTROL a socket, both inherited. A routing rule sends
the packets of a shaped link into the interface; packets written back to it go on to their destination. So a kernel
without netem, or a user without privileges, still has delay, jitter, loss, duplication, reordering, bandwidth and
resets, and links that are not shaped are not slowed.

Requests are JSON lines: `{"shapes": [[source address, destination address, {shape}], …]}` sets the shapes of all
links; the answer is the counts so far, `{"lost": …, …}`. It exits when that socket closes.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import select
import socket
import struct
import sys
import time
from collections import Counter
from dataclasses import dataclass

from harness.environments.machine.helpers.jsonl import receive_line
from nemesis.capabilities.shapes import PLAIN, Shape

_TCP = 6
_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_ADDRESSES = struct.Struct("!4s4s")
_HEADER_BYTES = 20


def ends(packet: bytes) -> tuple[str, str]:
    """Source and destination address."""
    source, destination = _ADDRESSES.unpack_from(packet, 12)
    return socket.inet_ntoa(source), socket.inet_ntoa(destination)


def resets(packet: bytes) -> tuple[bytes, bytes] | None:
    """The resets, to its sender and to its receiver, that end the connection of a segment.

    None if it is not a TCP segment, or is itself a reset. The sender takes the one because it acknowledges what was
    sent (and bears the number that the sender expects), the receiver the other because it comes where the segment was.
    """
    header = (packet[0] & 0xF) * 4
    if packet[9] != _TCP or len(packet) < header + _HEADER_BYTES:
        return None
    source, destination = _ADDRESSES.unpack_from(packet, 12)
    from_port, to_port, sequence, acknowledged, offset, flags = struct.unpack_from("!HHIIBB", packet, header)
    if flags & _RST:
        return None
    length = len(packet) - header - (offset >> 4) * 4 + bool(flags & _SYN) + bool(flags & _FIN)
    answers = (sequence + length) & 0xFFFFFFFF
    back = _segment(destination, source, to_port, from_port, acknowledged, answers)
    forth = _segment(source, destination, from_port, to_port, sequence, acknowledged)
    return back, forth


def _segment(
    source: bytes, destination: bytes, from_port: int, to_port: int, sequence: int, acknowledged: int
) -> bytes:
    bare = struct.pack(
        "!HHIIBBHHH", from_port, to_port, sequence, acknowledged, (_HEADER_BYTES // 4) << 4, _RST | _ACK, 0, 0, 0
    )
    pseudo = source + destination + struct.pack("!BBH", 0, _TCP, len(bare))
    segment = bare[:16] + struct.pack("!H", _checksum(pseudo + bare)) + bare[18:]
    header = struct.pack("!BBHHHBBH", 0x45, 0, _HEADER_BYTES + len(segment), 0, 0, 64, _TCP, 0) + source + destination
    return header[:10] + struct.pack("!H", _checksum(header)) + header[12:] + segment


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


_PACKET_BYTES = 65_536
_QUEUE_S = 1.0
_OVERTAKEN_S = 0.02
"""How long a reordered packet is held back."""


@dataclass
class _Link:
    shape: Shape
    free_at_s: float = 0.0  # when the last packet has left the bottleneck
    last_due_s: float = 0.0  # so that packets keep their order


class Shaper:
    """Decides for each packet whether and when to deliver it. Not safe to use from several threads."""

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], _Link] = {}
        self._waiting: list[tuple[float, int, bytes]] = []
        self._taken = 0
        self._random = random.Random()  # noqa: S311 - chaos, not secrets
        self.counts: Counter[str] = Counter()

    def set_shapes(self, shapes: dict[tuple[str, str], Shape]) -> None:
        """Set the shapes of all links. Packets already queued keep their delivery times."""
        self._links = {ends: _Link(shape) for ends, shape in shapes.items()}

    def take(self, packet: bytes, now_s: float) -> None:
        """Apply the link's shape to a packet, and queue the result for delivery."""
        link = self._links.get(ends(packet)) or _Link(PLAIN)
        shape = link.shape
        self.counts["taken"] += 1
        if shape.reset and (ending := resets(packet)) is not None:
            self.counts["reset"] += 1
            for segment in ending:
                self._wait(now_s, segment)
            return
        if self._happens(shape.loss_percent):
            self.counts["lost"] += 1
            return
        due_s = now_s
        if shape.kbit_per_s:
            link.free_at_s = max(link.free_at_s, now_s) + len(packet) * 8 / (shape.kbit_per_s * 1000)
            if link.free_at_s - now_s > _QUEUE_S:
                link.free_at_s -= len(packet) * 8 / (shape.kbit_per_s * 1000)
                self.counts["overflowed"] += 1
                return
            due_s = link.free_at_s
        due_s += (shape.delay_ms + self._random.uniform(-shape.jitter_ms, shape.jitter_ms)) / 1000
        if self._happens(shape.reorder_percent):
            self.counts["overtaken"] += 1
            self._wait(due_s + _OVERTAKEN_S, packet)
            return
        due_s = link.last_due_s = max(due_s, link.last_due_s)
        self._wait(due_s, packet)
        if self._happens(shape.duplicate_percent):
            self.counts["duplicated"] += 1
            self._wait(due_s, packet)

    def due(self, now_s: float) -> list[bytes]:
        """Remove and return the packets that are due, in order."""
        gone = []
        while self._waiting and self._waiting[0][0] <= now_s:
            gone.append(heapq.heappop(self._waiting)[2])
        return gone

    def rest_s(self, now_s: float) -> float | None:
        """Seconds until the next packet is due; None if the queue is empty."""
        return max(0.0, self._waiting[0][0] - now_s) if self._waiting else None

    def _wait(self, due_s: float, packet: bytes) -> None:
        self._taken += 1
        heapq.heappush(self._waiting, (due_s, self._taken, packet))

    def _happens(self, percent: float) -> bool:
        return percent > 0 and self._random.random() * 100 < percent


def serve(tun: int, control: socket.socket) -> None:
    """Deliver packets, and answer requests, until the control socket closes."""
    shaper = Shaper()
    poll = select.poll()
    poll.register(tun, select.POLLIN)
    poll.register(control, select.POLLIN)
    os.set_blocking(tun, False)
    while True:
        rest_s = shaper.rest_s(time.monotonic())
        for descriptor, _ in poll.poll(None if rest_s is None else rest_s * 1000):
            if descriptor == tun:
                _read(tun, shaper)
                continue
            line, _ = receive_line(control)
            if not line:
                return
            shapes = json.loads(line)["shapes"]
            shaper.set_shapes({(source, target): Shape(**shape) for source, target, shape in shapes})
            control.sendall(json.dumps(shaper.counts).encode() + b"\n")
        for packet in shaper.due(time.monotonic()):
            os.write(tun, packet)


def _read(tun: int, shaper: Shaper) -> None:
    while True:
        try:
            packet = os.read(tun, _PACKET_BYTES)
        except BlockingIOError:
            return
        if packet[0] >> 4 == 4:  # the kernel also sends IPv6 announcements
            shaper.take(packet, time.monotonic())


if __name__ == "__main__":
    serve(int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
