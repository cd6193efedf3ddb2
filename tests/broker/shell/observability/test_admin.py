"""The admin endpoint, queried over its socket as `curl --unix-socket` would."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading

import pytest

from broker.core.ports.files import StorageError
from broker.shell.observability import admin
from tests.broker.shell.shell_fakes import DEADLINE_S, ScriptedNode


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE_S)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE_S)
        self.sock.connect(self._path)


@pytest.fixture
def node():
    return ScriptedNode(lambda event: [])


@pytest.fixture
def socket_path(node, tmp_path):
    path = str(tmp_path / "admin")
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(admin.serve(path, node, lambda: "harrow_answer 42\n"))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield path
    loop.call_soon_threadsafe(loop.stop)
    thread.join(DEADLINE_S)
    server.close()
    loop.run_until_complete(server.wait_closed())
    loop.close()


def ask(path, target, method="GET"):
    connection = UnixConnection(path)
    connection.request(method, target)
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body


def test_the_state_is_the_nodes_own_description(node, socket_path):
    assert ask(socket_path, "/state") == (200, node.describe())


def test_metrics_are_text(socket_path):
    connection = UnixConnection(socket_path)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert response.read() == b"harrow_answer 42\n"
    connection.close()


@pytest.mark.parametrize(
    ("head", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1", 200, "harrow_answer 42\n"),
        (b"GET /state HTTP/1.1", 404, {"error": "expected GET /metrics, found GET /state"}),
        (b"GET", 400, {"error": "expected an HTTP request line"}),
        (b"GET //[ HTTP/1.1", 400, {"error": "expected a path, found '//['"}),
    ],
)
def test_over_tcp_there_are_metrics_only(head, status, body):
    assert admin.answer_metrics(lambda: "harrow_answer 42\n", head) == (status, body)


def test_the_log_is_read_with_the_parameters_of_the_query(socket_path):
    expected = {"topic": "a b", "partition": 3, "offset": 10, "limit": 5}
    assert ask(socket_path, "/log?topic=a%20b&partition=3&offset=10&limit=5") == (200, expected)


def test_offset_and_limit_have_defaults(socket_path):
    _, body = ask(socket_path, "/log?topic=t&partition=0")
    assert (body["offset"], body["limit"]) == (0, 1000)


@pytest.mark.parametrize(
    ("target", "method", "status", "text"),
    [
        ("/", "GET", 404, "expected GET /state, GET /log or GET /metrics"),
        ("/state", "POST", 404, "found POST /state"),
        ("/log", "GET", 400, "expected topic=NAME"),
        ("/log?topic=t", "GET", 400, "expected partition=NUMBER, found none"),
        ("/log?topic=t&partition=x", "GET", 400, "expected partition=NUMBER, found x"),
        ("/log?topic=missing&partition=0", "GET", 404, "expected a replica that is here"),
    ],
)
def test_an_unknown_path_or_partition_is_an_error(socket_path, target, method, status, text):
    found, body = ask(socket_path, target, method)
    assert found == status
    assert text in body["error"]


def test_a_failed_disk_is_an_answer_too(node, socket_path):
    def failed(*arguments):
        raise StorageError("I/O error")

    node.read_log = failed
    assert ask(socket_path, "/log?topic=t&partition=0") == (500, {"error": "I/O error"})


@pytest.mark.parametrize("sent", [b"", b"GET", b"\r\n\r\n", b"x" * 100_000])
def test_nonsense_does_not_bring_the_endpoint_down(socket_path, sent):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(socket_path)
        connection.sendall(sent)
    assert ask(socket_path, "/state")[0] == 200


def test_a_socket_left_by_a_killed_process_is_replaced(node, tmp_path):
    path = str(tmp_path / "stale")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)

    async def scenario():
        server = await admin.serve(path, node, str)
        server.close()

    asyncio.run(scenario())
