"""The upper bound of throughput: a server that decodes produce requests, appends to a file, and answers.

    python -m benchmarks.broker.bare_broker PORT FILE

No checks, no replication, no timers, one connection's requests after the other on one asyncio loop. Everything else
that a broker in Python does costs throughput; the ratio shows how much.
"""

import asyncio
import os
import sys
from pathlib import Path

from broker.core.configuration.settings import CLIENT_LISTENER
from broker.core.messages import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.shell.codec import api_versions
from broker.shell.codec.apis import LISTENER_APIS
from broker.shell.codec.frames import FrameBuffer, read_request, read_request_header, response_frame

TOPIC = "throughput"
APIS = {codec.api_key: codec for codec in LISTENER_APIS[CLIENT_LISTENER].values() if codec.api_key in (0, 3)}
RECORDS_IN_BATCH_AT = 57  # of a record batch of version 2


class Connection(asyncio.Protocol):
    """One client's connection, and the one log of the server."""

    def __init__(self, port: int, file: int) -> None:
        self.port, self.file, self.next_offset = port, file, 0
        self.incoming = FrameBuffer(100 << 20)
        self.transport = None

    def connection_made(self, transport) -> None:
        """Start."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that has arrived completely."""
        self.incoming.feed(data)
        answers = []
        while (frame := self.incoming.take()) is not None:
            header, position = read_request_header(frame)
            if header.api_key == api_versions.API_KEY:
                answers.append(api_versions.answer(header, frame, position, APIS.values()))
                continue
            codec = APIS[header.api_key]
            response = self.respond(read_request(codec, header, frame, position))
            answers.append(response_frame(codec, header.api_version, header.correlation_id, response))
        self.transport.write(b"".join(answers))

    def respond(self, request: MetadataRequest | ProduceRequest) -> MetadataResponse | ProduceResponse:
        """Claim to lead every partition, and append all records."""
        if isinstance(request, MetadataRequest):
            partition = MetadataPartition(0, 0, 1, 0, (1,), (1,), ())
            topic = MetadataTopic(0, TOPIC, "", False, (partition,))
            return MetadataResponse((MetadataBroker(1, "127.0.0.1", self.port),), "bare", 1, (topic,))
        (part,) = request.partitions
        base = self.next_offset
        os.write(self.file, part.records)
        self.next_offset += int.from_bytes(part.records[RECORDS_IN_BATCH_AT : RECORDS_IN_BATCH_AT + 4])
        return ProduceResponse((ProducedPartition(part.topic, part.partition, 0, base, 0),))


async def serve(port: int, path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(port, file), "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
