"""The admin endpoint: a node's state as JSON, by HTTP/1.1 over a Unix socket, where no network fault
reaches it.

`GET /state`, `GET /log?topic=T&partition=P&offset=O&limit=N` and `GET /metrics`; one request for each connection.
Only `/metrics` is also served over TCP, if configured.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from broker.core.configuration.settings import Address
from broker.core.ports.files import StorageError
from broker.core.ports.runtime import Node
from broker.shell.observability.metrics import CONTENT_TYPE

_REQUEST_S_MAX = 5.0
_LOG_LIMIT = 1000
"""Records in an answer to `GET /log` without a limit."""

Answer = tuple[HTTPStatus, Mapping[str, object] | str]
"""JSON, or metrics as text."""

Metrics = Callable[[], str]


class BadQueryError(Exception):
    """A parameter that is missing or not a number."""


async def serve(path: str, node: Node, metrics: Metrics) -> asyncio.Server:
    """Listen on a Unix socket. A stale socket of an earlier process is replaced; raises OSError otherwise."""
    return await asyncio.start_unix_server(partial(_connected, partial(answer, node, metrics)), path)


async def serve_metrics(address: Address, metrics: Metrics) -> asyncio.Server:
    """Listen on TCP for metrics collectors. Raises OSError if the address is taken or not local."""
    return await asyncio.start_server(partial(_connected, partial(answer_metrics, metrics)), *address)


async def _connected(
    respond: Callable[[bytes], Answer], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        async with asyncio.timeout(_REQUEST_S_MAX):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(_response(*respond(head)))
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the client has disconnected: there is no one to report to
    finally:
        writer.close()


def answer(node: Node, metrics: Metrics, head: bytes) -> Answer:
    """Answer one request, given its request line and header fields."""
    try:
        method, path, query = _request(head)
        match method, path:
            case "GET", "/state":
                return HTTPStatus.OK, node.describe()
            case "GET", "/log":
                return HTTPStatus.OK, _log(node, query)
            case "GET", "/metrics":
                return HTTPStatus.OK, metrics()
    except BadQueryError as error:
        return HTTPStatus.BAD_REQUEST, {"error": str(error)}
    except KeyError as error:
        return HTTPStatus.NOT_FOUND, {"error": f"expected a replica that is here, found {error}"}
    except StorageError as error:
        return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)}
    return HTTPStatus.NOT_FOUND, {"error": f"expected GET /state, GET /log or GET /metrics, found {method} {path}"}


def answer_metrics(metrics: Metrics, head: bytes) -> Answer:
    """Answer one request on the metrics-only listener."""
    try:
        method, path, _ = _request(head)
    except BadQueryError as error:
        return HTTPStatus.BAD_REQUEST, {"error": str(error)}
    if (method, path) == ("GET", "/metrics"):
        return HTTPStatus.OK, metrics()
    return HTTPStatus.NOT_FOUND, {"error": f"expected GET /metrics, found {method} {path}"}


def _request(head: bytes) -> tuple[str, str, Mapping[str, list[str]]]:
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3:
        raise BadQueryError("expected an HTTP request line")
    method, target, _ = words
    try:
        url = urlsplit(target)
    except ValueError as error:
        raise BadQueryError(f"expected a path, found {target!r}") from error
    return method, url.path, parse_qs(url.query)


def _log(node: Node, query: Mapping[str, list[str]]) -> Mapping[str, object]:
    if "topic" not in query:
        raise BadQueryError("expected topic=NAME")
    limit = _number(query, "limit", _LOG_LIMIT)
    return node.read_log(query["topic"][0], _number(query, "partition"), _number(query, "offset", 0), limit)


def _number(query: Mapping[str, list[str]], name: str, default: int | None = None) -> int:
    values = query.get(name)
    if values is None and default is not None:
        return default
    if values is None or not values[0].isdecimal():
        raise BadQueryError(f"expected {name}=NUMBER, found {values[0] if values else 'none'}")
    return int(values[0])


def _response(status: HTTPStatus, body: Mapping[str, object] | str) -> bytes:
    content, kind = (body, CONTENT_TYPE) if isinstance(body, str) else (json.dumps(body), "application/json")
    data = content.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {kind}\r\n"
        f"Content-Length: {len(data)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + data
