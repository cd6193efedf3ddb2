"""The admin endpoint: what a node believes, as JSON, by HTTP/1.1 over a Unix socket, where no network fault
reaches it.

`GET /state` and `GET /log?topic=T&partition=P&offset=O&limit=N`; one request for each connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from broker.core.files import StorageError
from broker.core.runtime import Node

_REQUEST_S_MAX = 5.0
_LOG_LIMIT = 1000
"""Records in an answer to `GET /log` that does not say how many it wants."""

Answer = tuple[HTTPStatus, Mapping[str, object]]


class BadQueryError(Exception):
    """A parameter that is missing or not a number."""


async def serve(path: str, node: Node) -> asyncio.Server:
    """Listen on a Unix socket. A stale socket of an earlier process is replaced; raises OSError otherwise."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(*answer(node, head)))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the asker has gone, or never was one: nobody is left to hear of it
        finally:
            writer.close()

    return await asyncio.start_unix_server(connected, path)


def answer(node: Node, head: bytes) -> Answer:
    """Answer one request, given its request line and header fields."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3:
        return HTTPStatus.BAD_REQUEST, {"error": "expected an HTTP request line"}
    method, target, _ = words
    url = urlsplit(target)
    if method != "GET" or url.path not in ("/state", "/log"):
        found = f"{method} {url.path}"
        return HTTPStatus.NOT_FOUND, {"error": f"expected GET /state or GET /log, found {found}"}
    if url.path == "/state":
        return HTTPStatus.OK, node.describe()
    try:
        return HTTPStatus.OK, _log(node, parse_qs(url.query))
    except BadQueryError as error:
        return HTTPStatus.BAD_REQUEST, {"error": str(error)}
    except KeyError as error:
        return HTTPStatus.NOT_FOUND, {"error": f"expected a replica that is here, found {error}"}
    except StorageError as error:
        return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)}


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


def _response(status: HTTPStatus, body: Mapping[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + content
