"""A TLS and SASL/PLAIN endpoint in front of a broker that has neither: it ends TLS, logs clients in, and passes on."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

_HANDSHAKE, _AUTHENTICATE, _API_VERSIONS = 17, 36, 18
_REFUSED, _UNSUPPORTED = 58, 35


def certificate(directory: Path, host: str = "127.0.0.1") -> tuple[Path, Path]:
    """Make a certificate that signs itself, and its key."""
    pem, key = directory / "broker.pem", directory / "broker.key"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key)]
    words += ["-out", str(pem), "-subj", "/CN=test", "-addext", f"subjectAltName=IP:{host}"]
    subprocess.run(words, check=True, capture_output=True)
    return pem, key


def client_certificate(directory: Path, password: str, name: str = "client") -> tuple[Path, Path]:
    """Make a client's certificate that signs itself, and its key, encrypted with the password."""
    pem, key = directory / f"{name}.pem", directory / f"{name}.key"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-passout", f"pass:{password}"]
    words += ["-keyout", str(key), "-out", str(pem), "-subj", f"/CN={name}"]
    subprocess.run(words, check=True, capture_output=True)
    return pem, key


class SecureEndpoint:
    """Listens on a port of its own until it is closed. `target` may be set before the first client comes.

    With `clients` it asks every client for a certificate (mutual TLS), and trusts the one in that file alone.
    """

    def __init__(
        self, tls: tuple[Path, Path] | None, login: tuple[str, str] | None, clients: Path | None = None
    ) -> None:
        self.target = ("127.0.0.1", 0)
        self.logins = 0
        self._login = login
        self._context = None
        if tls is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*tls)
            if clients is not None:
                self._context.verify_mode = ssl.CERT_REQUIRED
                self._context.load_verify_locations(clients)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more clients."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
            with client, socket.create_connection(self.target) as broker:
                if self._login is None or self._log_in(client, broker):
                    self._pass_on(client, broker)

    def _log_in(self, client: socket.socket, broker: socket.socket) -> bool:
        """Let nothing but ApiVersions pass before the client has logged in (KIP-152)."""
        while True:
            frame = _frame(client)
            key, version, correlation = struct.unpack(">hhi", frame[:8])
            if key == _API_VERSIONS:
                client.sendall(_framed(_versions(broker, version, correlation)))
            elif key == _HANDSHAKE:
                client.sendall(_framed(struct.pack(">ihi", correlation, 0, 1) + struct.pack(">h", 5) + b"PLAIN"))
            elif key == _AUTHENTICATE:
                told = self._login is not None and "\0".join(("", *self._login)).encode() in frame
                self.logins += told
                error = struct.pack(">hh", 0, -1) if told else struct.pack(">hh", _REFUSED, 5) + b"wrong"
                lifetime = struct.pack(">q", 0) if version else b""
                client.sendall(_framed(struct.pack(">i", correlation) + error + struct.pack(">i", 0) + lifetime))
                if told:
                    return True
            else:
                return False

    def _pass_on(self, client: socket.socket, broker: socket.socket) -> None:
        def answers() -> None:
            with suppress(OSError):
                while True:
                    client.sendall(_framed(_frame(broker)))

        threading.Thread(target=answers, daemon=True).start()
        while True:
            broker.sendall(_framed(_frame(client)))


def _versions(broker: socket.socket, version: int, correlation: int) -> bytes:
    """The broker's APIs and those of SASL, in version 0; a client that knows more is asked to come back with that."""
    broker.sendall(_framed(struct.pack(">hhih", _API_VERSIONS, 0, correlation, -1)))
    answer = _frame(broker)
    found = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[10:])}
    found |= {_API_VERSIONS: (0, 0), _HANDSHAKE: (0, 1), _AUTHENTICATE: (0, 1)}
    error = _UNSUPPORTED if version else 0
    listed = b"".join(struct.pack(">hhh", key, *range_) for key, range_ in sorted(found.items()))
    return struct.pack(">ihi", correlation, error, len(found)) + listed


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        data = connection.recv(size - len(received))
        if not data:
            raise ConnectionError("closed")
        received += data
    return received
