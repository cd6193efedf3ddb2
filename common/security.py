"""Reads how clients prove who they are and check who answers: TLS and SASL, for every client library alike.

The settings come from a file of `key=value` lines (`--client-config`), with the names that librdkafka and Kafka's own
tools use. A password is never in that file: it names another file, or an environment variable, that has it. Processes
hand on the path of the file alone, so that no password is in a command line, in a run's directory, or on a page.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_PROTOCOL: Final = "security.protocol"
_CA: Final = "ssl.ca.location"
_CERTIFICATE: Final = "ssl.certificate.location"
_KEY: Final = "ssl.key.location"
_KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 (a name)
_KEY_PASSWORD_FILE: Final = "ssl.key.password.file"  # noqa: S105
_KEY_PASSWORD_ENV: Final = "ssl.key.password.env"  # noqa: S105
_HOST: Final = "ssl.endpoint.identification.algorithm"
_MECHANISM: Final = "sasl.mechanism"
_USERNAME: Final = "sasl.username"
_PASSWORD_FILE: Final = "sasl.password.file"  # noqa: S105
_PASSWORD_ENV: Final = "sasl.password.env"  # noqa: S105
_FILES: Final = (_CA, _CERTIFICATE, _KEY, _KEY_PASSWORD_FILE, _PASSWORD_FILE)
_TLS: Final = (_CA, _CERTIFICATE, _KEY, _KEY_PASSWORD_FILE, _KEY_PASSWORD_ENV, _HOST)
_KEYS: Final = (_PROTOCOL, *_TLS, _MECHANISM, _USERNAME, _PASSWORD_FILE, _PASSWORD_ENV)
_SECRETS: Final = frozenset({"sasl.password", "sasl.jaas.config", _KEY_PASSWORD, "ssl.truststore.password"})


class SecurityError(Exception):
    """The settings are wrong. One line: what was expected, what was found, and what to do."""


@dataclass(frozen=True)
class Security:
    """How to connect to a broker. Has no secret: `password` and `key_password` read them from where they are."""

    protocol: str = "PLAINTEXT"
    ca: str = ""  # file with the certificates to trust; empty: the system's
    certificate: str = ""  # file with this client's own, where brokers ask for one; `key` is its key
    key: str = ""
    key_password_file: str = ""  # of an encrypted key; neither this nor the next where the key is not encrypted
    key_password_env: str = ""
    checks_host: bool = True  # whether the broker's certificate must have its host name
    mechanism: str = "PLAIN"
    username: str = ""
    password_file: str = ""
    password_env: str = ""

    @property
    def encrypted(self) -> bool:
        """Whether connections use TLS."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def authenticated(self) -> bool:
        """Whether clients log in with a user and a password."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def password(self) -> str:
        """Read the password. Raises `SecurityError`."""
        return _secret(self.password_file, self.password_env, _PASSWORD_FILE, _PASSWORD_ENV)

    def key_password(self) -> str:
        """Read the password of the client's key; empty for a key that is not encrypted. Raises `SecurityError`."""
        if not self.key_password_file and not self.key_password_env:
            return ""
        return _secret(self.key_password_file, self.key_password_env, _KEY_PASSWORD_FILE, _KEY_PASSWORD_ENV)

    def ssl_context(self) -> ssl.SSLContext | None:
        """Make the TLS context; None without TLS. Raises `SecurityError`."""
        if not self.encrypted:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            context.check_hostname = self.checks_host
            if self.certificate:
                self._load_own(context)
        except (OSError, ValueError) as error:
            files = ", ".join(name for name in (self.ca, self.certificate, self.key) if name)
            raise SecurityError(
                f"{_CA}, {_CERTIFICATE}, {_KEY}: expected certificates and keys in PEM, found {files}: {error}"
            ) from error
        return context

    def _load_own(self, context: ssl.SSLContext) -> None:
        """Give the context this client's certificate and key."""
        password = self.key_password()
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self.certificate, self.key or None, password=lambda: password)
        except ssl.SSLError as error:
            key = self.key or self.certificate
            if b"ENCRYPTED" not in Path(key).read_bytes():
                raise
            found = "another" if password else "none"
            raise SecurityError(
                f"{_KEY_PASSWORD_FILE}, {_KEY_PASSWORD_ENV}: expected the password of the key in {key}, found {found}"
            ) from error

    def python_options(self) -> Mapping[str, object]:
        """Return the options of kafka-python and of aiokafka, which name them alike. Raises `SecurityError`."""
        options: dict[str, object] = {"security_protocol": self.protocol}
        if self.encrypted:
            options["ssl_context"] = self.ssl_context()
        if self.authenticated:
            options["sasl_mechanism"] = self.mechanism
            options["sasl_plain_username"] = self.username
            options["sasl_plain_password"] = self.password()
        return options

    def librdkafka_options(self) -> Mapping[str, object]:
        """Return the options of confluent-kafka. Raises `SecurityError`."""
        options: dict[str, object] = {_PROTOCOL: self.protocol}
        if self.encrypted:
            named = {_CA: self.ca, _CERTIFICATE: self.certificate, _KEY: self.key}
            named[_KEY_PASSWORD] = self.key_password()
            options |= {name: value for name, value in named.items() if value}
            options[_HOST] = "https" if self.checks_host else "none"
        if self.authenticated:
            options |= {_MECHANISM: self.mechanism, _USERNAME: self.username, "sasl.password": self.password()}
        return options


PLAIN_TEXT: Final = Security()
"""Without TLS and SASL."""


def read_security(path: str) -> Security:
    """Read a file of settings; without a path it is plain text. The password must be there. Raises `SecurityError`."""
    if not path:
        return PLAIN_TEXT
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SecurityError(f"client-config: expected a file of key=value lines, found {path}: {error}") from error
    try:
        security = _security(_pairs(text), Path(path).absolute().parent)
        security.ssl_context()
        if security.authenticated:
            security.password()
    except SecurityError as error:
        raise SecurityError(f"client-config: {path}: {error}") from error
    return security


def _pairs(text: str) -> Mapping[str, str]:
    pairs: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not (stripped := line.strip()) or stripped.startswith("#"):
            continue
        key, equals, value = (part.strip() for part in stripped.partition("="))
        if not equals:
            raise SecurityError(f"expected key=value in line {number}, found none")
        if key in _SECRETS:
            raise SecurityError(
                f"expected no secret in this file, found {key} in line {number}; put the password into a file of its "
                f"own or into an environment variable, and name that with {_named_by(key)}"
            )
        if key not in _KEYS:
            raise SecurityError(f"expected one of {', '.join(_KEYS)} in line {number}, found {key!r}")
        pairs[key] = value
    return pairs


def _security(pairs: Mapping[str, str], beside: Path) -> Security:
    """Make the settings; files are named relative to the directory of the file that names them."""
    protocol = _one_of(pairs, _PROTOCOL, PROTOCOLS, "PLAINTEXT")
    files = {key: str(beside / pairs[key]) if pairs.get(key) else "" for key in _FILES}
    security = Security(
        protocol=protocol,
        ca=files[_CA],
        certificate=files[_CERTIFICATE],
        key=files[_KEY],
        key_password_file=files[_KEY_PASSWORD_FILE],
        key_password_env=pairs.get(_KEY_PASSWORD_ENV, ""),
        checks_host=_one_of(pairs, _HOST, ("https", "none"), "https") == "https",
        mechanism=_one_of(pairs, _MECHANISM, MECHANISMS, "PLAIN"),
        username=pairs.get(_USERNAME, ""),
        password_file=files[_PASSWORD_FILE],
        password_env=pairs.get(_PASSWORD_ENV, ""),
    )
    for prefix, used, wanted in (("ssl.", security.encrypted, "SSL"), ("sasl.", security.authenticated, "SASL")):
        if not used and (unused := [key for key in pairs if key.startswith(prefix)]):
            raise SecurityError(f"{_PROTOCOL}: expected one with {wanted} for {unused[0]}, found {protocol}")
    if security.authenticated:
        if not security.username:
            raise SecurityError(f"{_USERNAME}: expected a user for {protocol}, found none")
        if bool(security.password_file) == bool(security.password_env):
            raise SecurityError(
                f"expected either {_PASSWORD_FILE} or {_PASSWORD_ENV} for {protocol}, "
                f"found {'both' if security.password_file else 'neither'}"
            )
    if security.key and not security.certificate:
        raise SecurityError(f"{_CERTIFICATE}: expected the certificate of {_KEY}, found none")
    if security.key_password_file and security.key_password_env:
        raise SecurityError(f"expected either {_KEY_PASSWORD_FILE} or {_KEY_PASSWORD_ENV}, found both")
    if (security.key_password_file or security.key_password_env) and not security.certificate:
        raise SecurityError(f"{_CERTIFICATE}: expected the certificate of the key with a password, found none")
    return security


def _secret(file: str, variable: str, file_key: str, variable_key: str) -> str:
    """Read a password from the environment variable, or else from the file."""
    if variable:
        found = os.environ.get(variable, "")
        if not found:
            raise SecurityError(
                f"{variable_key}: expected a password in the environment variable {variable}, found none"
            )
        return found
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecurityError(f"{file_key}: expected a file with the password, found {file}: {error}") from error


def _named_by(secret: str) -> str:
    if secret == _KEY_PASSWORD:
        return f"{_KEY_PASSWORD_FILE} or {_KEY_PASSWORD_ENV}"
    return f"{_PASSWORD_FILE} or {_PASSWORD_ENV}"


def _one_of(pairs: Mapping[str, str], key: str, known: tuple[str, ...], default: str) -> str:
    value = pairs.get(key, default)
    if value not in known:
        raise SecurityError(f"{key}: expected {' or '.join(known)}, found {value!r}")
    return value
