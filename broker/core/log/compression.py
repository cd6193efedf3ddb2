"""Decompresses the records of a batch with Kafka's codecs, up to a bound, and compresses them.

gzip by the standard library; snappy (also in snappy-java's framing), lz4 and zstd by cramjam, where it is installed.
"""

from __future__ import annotations

import struct
import zlib
from types import ModuleType

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DECOMPRESSED_BYTES_MAX = 16 << 20
"""A batch of the largest accepted size rarely unfolds to more; one that does costs a server its memory."""

_GZIP = 31
_GZIP_OR_ZLIB = 47
"""zlib's `wbits` for a gzip header, and for any."""
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16
_BLOCK = struct.Struct(">i")


class CompressionError(Exception):
    """Bytes that a codec does not accept; the message says what was expected."""


class UnknownCodec(CompressionError):
    """A codec that does not exist, or whose library is not installed."""


class TooLarge(CompressionError):
    """More than `DECOMPRESSED_BYTES_MAX` come out."""


def decompress(codec: int, data: bytes, most_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The decompressed bytes. Raises `CompressionError`."""
    match CODECS[codec] if codec < len(CODECS) else "":
        case "none":
            return data
        case "gzip":
            return _gunzip(data, most_bytes)
        case "snappy" if data.startswith(_XERIAL_MAGIC):
            return _xerial(data, most_bytes)
        case "snappy" | "lz4" | "zstd" as name:
            return _by_library(name, data, most_bytes)
    raise UnknownCodec(f"expected a codec from 0 to {len(CODECS) - 1}, found {codec}")


def compress(codec: int, data: bytes) -> bytes:
    """The data in a codec's form that all clients read: raw snappy, lz4 frames of independent blocks.

    Raises `UnknownCodec` if the codec's library is not installed.
    """
    if CODECS[codec] == "none":
        return data
    if CODECS[codec] == "gzip":
        zipper = zlib.compressobj(wbits=_GZIP)
        return zipper.compress(data) + zipper.flush()
    cramjam = _cramjam(CODECS[codec])
    match CODECS[codec]:
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(data))
        case "lz4":
            compressor = cramjam.lz4.Compressor(block_linked=False)
            compressor.compress(data)
            return bytes(compressor.finish())
        case _:
            return bytes(cramjam.zstd.compress(data))


def _gunzip(data: bytes, most_bytes: int) -> bytes:
    unzipper = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        found = unzipper.decompress(data, most_bytes + 1)
    except zlib.error as error:
        raise CompressionError(f"expected records compressed with gzip, found garbage ({error})") from None
    if len(found) > most_bytes:
        raise TooLarge(f"expected at most {most_bytes} bytes of records compressed with gzip, found more")
    if not unzipper.eof:
        raise CompressionError("expected records compressed with gzip, found only their beginning")
    return found


def _xerial(data: bytes, most_bytes: int) -> bytes:
    """snappy-java's stream: a header of 16 bytes, then blocks, each after its size."""
    blocks = []
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        if at + _BLOCK.size > len(data):
            raise CompressionError("expected the size of a snappy block, found the end of the records")
        (size,) = _BLOCK.unpack_from(data, at)
        at += _BLOCK.size
        if not 0 < size <= len(data) - at:
            raise CompressionError(f"expected a snappy block of up to {len(data) - at} bytes, found one of {size}")
        blocks.append(_by_library("snappy", data[at : at + size], most_bytes))
        most_bytes -= len(blocks[-1])
        at += size
    return b"".join(blocks)


def _by_library(name: str, data: bytes, most_bytes: int) -> bytes:
    cramjam = _cramjam(name)
    decompress_into = cramjam.snappy.decompress_raw_into if name == "snappy" else getattr(cramjam, name).decompress_into
    room = max(4096, 16 * len(data))  # clearing a buffer of the largest size takes longer than most batches do
    while True:
        buffer = bytearray(min(room, most_bytes))
        try:
            size = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if "buffer" not in str(error):
                found = f"expected records compressed with {name}, found garbage ({error})"
                raise CompressionError(found) from None
            if room >= most_bytes:
                found = f"expected at most {most_bytes} bytes of records compressed with {name}, found more"
                raise TooLarge(found) from None
            room *= 16
        else:
            return bytes(memoryview(buffer)[:size])


def _cramjam(name: str) -> ModuleType:
    try:
        import cramjam  # most brokers never need it
    except ImportError:
        raise UnknownCodec(f"expected the package cramjam for records compressed with {name}, found none") from None
    return cramjam
