"""Parses addresses of IPv4 packets and builds TCP resets for their connections (RFC 791, RFC 9293)."""

from __future__ import annotations

import socket
import struct

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
