"""Secures a connection to a broker: TLS around its socket, and the exchange of messages that logs a client in."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

from kafka.errors import KafkaError
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from common.security import Security

Untyped = Any
"""A message of kafka-python, which has no types."""

Exchange = Callable[[Untyped, Untyped, int], Untyped]
"""Sends a request in a version, and returns the answer."""

_STEPS_MAX = 8
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 0


def encrypted(
    connection: socket.socket, security: Security, context: ssl.SSLContext | None, host: str
) -> socket.socket:
    """Wrap a connected socket, if TLS is wanted. Raises `OSError`, as which TLS reports a certificate, too."""
    if not security.encrypted or context is None:
        return connection
    return context.wrap_socket(connection, server_hostname=host)


def log_in(security: Security, exchange: Exchange, host: str) -> None:
    """Authenticate the connection, if SASL is wanted. Raises `PermissionError` with the broker's reason."""
    if not security.authenticated:
        return
    offered = exchange(SaslHandshakeRequest(mechanism=security.mechanism), SaslHandshakeResponse, _HANDSHAKE_VERSION)
    if security.mechanism not in offered.mechanisms:
        listed = ", ".join(offered.mechanisms) or "none"
        raise PermissionError(f"expected the broker to offer {security.mechanism}, found {listed}")
    mechanism = get_sasl_mechanism(security.mechanism)(
        host=host,
        security_protocol="",
        sasl_mechanism=security.mechanism,
        sasl_plain_username=security.username,
        sasl_plain_password=security.password(),
    )
    for _ in range(_STEPS_MAX):
        if mechanism.is_done():
            break
        request = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
        answer = exchange(request, SaslAuthenticateResponse, _AUTHENTICATE_VERSION)
        if answer.error_code != 0:
            raise PermissionError(f"the broker refused user {security.username}: {answer.error_message}")
        try:
            mechanism.receive(answer.auth_bytes)
        except (KafkaError, AssertionError) as error:
            raise PermissionError(f"the broker did not prove that it knows user {security.username}") from error
    if not mechanism.is_authenticated():
        raise PermissionError(f"the broker did not accept user {security.username}")
