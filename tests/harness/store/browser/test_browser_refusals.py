"""What the store browser refuses: other hosts and origins, other methods, and every way out of the store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.store.browser.files import files_of, read_file
from tests.harness.store.browser.served_store import Served, add_run

Serve = Callable[[Path], Served]
ONE = "20260105T020000Z-local-log-usual-seed-7"
SECRET = "a secret outside the store"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "store-other").mkdir()
    (tmp_path / "store-other" / "secret.txt").write_text(SECRET)
    add_run(tmp_path / "store", ONE)
    return tmp_path / "store"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
)
def test_a_foreign_name_for_loopback_is_refused(serve: Serve, store: Path, host: str) -> None:
    served = serve(store)
    given = host.format(port=served.server.server_port)
    for path in ("/", f"/store/runs/{ONE}/spec.json"):
        answer = served.get(path, Host=given)
        assert answer.status in (400, 403)
        assert ONE not in answer.text
        assert "brokers" not in answer.text


def test_two_hosts_are_refused(serve: Serve, store: Path) -> None:
    served = serve(store)
    answer = served.raw(f"GET / HTTP/1.1\r\nHost: {served.host}\r\nHost: evil.example\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_its_own_names_are_answered(serve: Serve, store: Path, name: str) -> None:
    served = serve(store)
    assert served.get("/", Host=f"{name}:{served.server.server_port}").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
    ],
)
def test_a_foreign_page_is_refused(serve: Serve, store: Path, headers: dict[str, str]) -> None:
    answer = serve(store).get("/", **headers)
    assert answer.status == 403
    assert ONE not in answer.text
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_its_own_pages_and_links_to_it_are_answered(serve: Serve, store: Path) -> None:
    served = serve(store)
    assert served.get("/", Origin=f"http://{served.host}").status == 200
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert served.get("/", **link).status == 200


def test_every_answer_forbids_frames_and_foreign_content(serve: Serve, store: Path) -> None:
    served = serve(store)
    for path in ("/", f"/store/runs/{ONE}/report.html", "/none", f"/store/runs/{ONE}/spec.json"):
        headers = served.get(path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = served.get(f"/store/runs/{ONE}/report.html").headers["Content-Security-Policy"]
    assert policy.startswith("sandbox ")
    assert "allow-same-origin" not in policy, "a report cannot read other pages of the store"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"])
def test_it_only_reads(serve: Serve, store: Path, method: str) -> None:
    assert serve(store).get("/", method).status == 501


def test_head_has_no_content(serve: Serve, store: Path) -> None:
    answer = serve(store).get("/", "HEAD")
    assert (answer.status, answer.text) == (200, "")


WAYS_OUT = [
    "../secret.txt",
    "..%2fsecret.txt",
    "%2e%2e/secret.txt",
    "%2e%2e%2fsecret.txt",
    "%252e%252e%252fsecret.txt",
    f"runs/{ONE}/../../../secret.txt",
    "..\\secret.txt",
    "..%5csecret.txt",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "//etc/passwd",
    "../store-other/secret.txt",
    "./spec.json",
    f"runs/{ONE}/link",
    f"runs/{ONE}/folder/secret.txt",
    "linked-run/secret.txt",
    f"runs/{ONE}/pipe",
    f"runs/{ONE}/.hidden",
    f"runs/{ONE}",
    f"runs/{ONE}/",
    f"runs//{ONE}/spec.json",
    f"runs/{ONE}/spec.json%00.txt",
    f"runs/{ONE}/spec.json/x",
    "x" * 5000,
    "%ff%fe",
    "",
]


@pytest.mark.parametrize("path", WAYS_OUT, ids=lambda path: path[:40])
def test_no_path_leads_out_of_the_store(serve: Serve, store: Path, path: str) -> None:
    run = store / "runs" / ONE
    (run / "link").symlink_to(store.parent / "secret.txt")
    (run / "folder").symlink_to(store.parent)
    (store / "linked-run").symlink_to(store.parent)
    (run / ".hidden").write_text(SECRET)
    os.mkfifo(run / "pipe")
    answer = serve(store).get(f"/store/{path}")
    assert answer.status == 404
    assert SECRET not in answer.text
    assert "root:" not in answer.text


def test_a_run_that_is_a_link_is_no_run(serve: Serve, store: Path) -> None:
    add_run(store.parent / "elsewhere", ONE)
    other = "20260106T020000Z-local-seed-1"
    (store / "runs" / other).symlink_to(store.parent / "elsewhere" / "runs" / ONE)
    served = serve(store)
    assert other not in served.get("/").text
    assert served.get(f"/runs/{other}").status == 404
    assert served.get(f"/compare?one={ONE}&other={other}").status == 404


def test_files_of_the_store_are_handed_out_as_what_they_are(serve: Serve, store: Path) -> None:
    run = store / "runs" / ONE
    for name in ("node.log", "x.svg", "page.HTML", "data"):
        (run / name).write_text("<script>alert(1)</script>")
    served = serve(store)
    names = [path.name for path in run.iterdir() if path.is_file()]
    types = {name: served.get(f"/store/runs/{ONE}/{name}").headers["Content-Type"] for name in names}
    assert types["report.html"] == "text/html; charset=utf-8"
    assert types["spec.json"] == "application/json"
    assert types["node.log"] == "text/plain; charset=utf-8"
    assert types["x.svg"] == types["page.HTML"] == "application/octet-stream", "no browser shows it"


def test_only_plain_files_are_read_and_listed(store: Path) -> None:
    run = store / "runs" / ONE
    (run / "link.json").symlink_to(run / "spec.json")
    (run / "clients").mkdir()
    (run / "clients" / "log.txt").write_text("x")
    (run / "history" / "part.parquet").write_text("x")
    assert read_file(store, f"runs/{ONE}/link.json") is None
    assert read_file(store, f"runs/{ONE}/clients") is None
    assert [file.path for file in files_of(run)] == ["report.html", "results.json", "spec.json", "clients/log.txt"]


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET http://evil.example/ HTTP/1.1",
        b"GET /?" + b"a=1&" * 100 + b" HTTP/1.1",
        b"GET //[ HTTP/1.1",
        b"GET /runs/%00%0d%0aSet-Cookie:x HTTP/1.1",
        b"GET /\xff\xfe HTTP/1.1",
        b"nonsense",
        b"GET / HTTP/9.9",
    ],
)
def test_an_odd_request_is_answered_and_breaks_nothing(serve: Serve, store: Path, request_line: bytes) -> None:
    served = serve(store)
    answer = served.raw(request_line + b"\r\nHost: " + served.host.encode() + b"\r\n\r\n")
    assert b"Traceback" not in answer
    assert b"Set-Cookie" not in answer.partition(b"\r\n\r\n")[0]
    assert served.get("/").status == 200
