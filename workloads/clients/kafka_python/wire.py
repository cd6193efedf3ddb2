"""Observes the requests that kafka-python sends and the responses that it receives.

The library retries, prefetches and answers from its buffers; its results do not show how many attempts a send
took, or when an empty result was requested. A correct history needs both. kafka-python lets its user supply the
network client (`kafka_client=`), and this module supplies one that reports every request with the future of its
response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

Untyped = Any
"""A value of kafka-python, which carries no types."""

Watch = Callable[[int | None, Untyped, Untyped], None]
"""Called with the node that a request goes to, the request, and the future of the response."""

CONNECT_TIMEOUT_MS: Final = 1_000
"""Timeout of connecting; a broker behind a cut link must not block the client for ten seconds."""


def watched_client(watch: Watch, before_poll: Callable[[], None] | None = None) -> Callable[..., Untyped]:
    """Return a factory for `kafka_client=` whose clients report their requests to `watch`.

    That happens on the thread that sends them. `watch` adds its callbacks before the library does, so they
    run first, on the thread that receives the response. `before_poll` is called on the sending thread before it
    waits for the network, when it has sent all selected batches.
    """

    def make(**configs: Untyped) -> Untyped:
        configs["socket_connection_setup_timeout_ms"] = CONNECT_TIMEOUT_MS
        network = NetworkSelector(**configs)
        manager = KafkaConnectionManager(network, **configs)
        send = manager.send

        def watched_send(request: Untyped, node_id: int | None = None, request_timeout_ms: Untyped = None) -> Untyped:
            future = send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)
            watch(node_id, request, future)
            return future

        manager.send = watched_send
        client = KafkaNetClient(net=network, manager=manager)
        if before_poll is not None:
            poll = client.poll

            def watched_poll(*arguments: Untyped, **options: Untyped) -> Untyped:
                before_poll()
                return poll(*arguments, **options)

            client.poll = watched_poll
        return client

    return make
