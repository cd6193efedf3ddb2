"""Connects to a machine by SSH and runs commands there, with each error in one line."""

from __future__ import annotations

import logging
import socket
from dataclasses import dataclass

import paramiko
from paramiko.pkey import UnknownKeyType

from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.connection.hosts import SshHost

_CONNECT_TIMEOUT_S = 10.0
_LOGIN_TIMEOUT_S = 30.0  # an emulated machine is slow at cryptography
_COMMAND_TIMEOUT_S = 180.0  # an emulated machine is slow at everything, and more so when this one is busy
_KEEP_ALIVE_S = 5

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # it also raises what it would log


@dataclass(frozen=True)
class Answer:
    """The result of a command."""

    status: int
    output: str
    errors: str

    @property
    def complaint(self) -> str:
        """The last line of its errors."""
        return (self.errors.strip().splitlines() or [f"status {self.status}"])[-1]


class SshConnection:
    """A logged-in user on a machine."""

    def __init__(self, host: SshHost, dialled: socket.socket | None = None) -> None:
        """Log in, over the connection `dialled` to its SSH server if given. Raises `EnvironmentFailed`."""
        self.host = host
        self._client = _log_in(host, dialled)
        self._transport = self._client.get_transport()
        assert self._transport is not None
        self._transport.set_keepalive(_KEEP_ALIVE_S)

    def open(self, command: str, *, as_root: bool = False) -> paramiko.Channel:
        """Start a command; returns its channel. Raises `EnvironmentFailed`."""
        try:
            channel = self._transport.open_session(timeout=_CONNECT_TIMEOUT_S)
            channel.exec_command(f"sudo -n {command}" if as_root and self.host.sudo else command)
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise EnvironmentFailed(
                f"expected host {self.host.name} to run a command, found: {_reason(error)}"
            ) from error
        return channel

    def run(
        self, command: str, data: bytes = b"", *, as_root: bool = False, timeout_s: float = _COMMAND_TIMEOUT_S
    ) -> Answer:
        """Run a command to its end with that standard input. Raises `EnvironmentFailed` on a lost connection."""
        channel = self.open(command, as_root=as_root)
        try:
            channel.settimeout(timeout_s)
            with channel.makefile_stdin("wb") as stdin:
                stdin.write(data)
            channel.shutdown_write()
            with channel.makefile("rb") as stdout, channel.makefile_stderr("rb") as stderr:
                output, errors = stdout.read(), stderr.read()
            return Answer(channel.recv_exit_status(), output.decode(errors="replace"), errors.decode(errors="replace"))
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise EnvironmentFailed(
                f"expected host {self.host.name} to run {command.split()[0]!r} to its end, found: {_reason(error)}"
            ) from error
        finally:
            channel.close()

    @property
    def is_up(self) -> bool:
        """Whether the connection is still open, as far as this end knows."""
        return bool(self._transport.is_active())

    def close(self) -> None:
        """Log out. Safe to call twice."""
        self._client.close()


def _log_in(host: SshHost, dialled: socket.socket | None) -> paramiko.SSHClient:
    where = f"{host.address}:{host.port}"
    client = paramiko.SSHClient()
    client.load_system_host_keys()
    if host.known_hosts is not None:
        client.load_host_keys(str(host.known_hosts))
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        client.connect(
            host.address,
            host.port,
            host.user,
            pkey=None if host.key is None else paramiko.PKey.from_path(host.key),
            sock=dialled,
            allow_agent=host.key is None,
            look_for_keys=host.key is None,
            timeout=_CONNECT_TIMEOUT_S,
            banner_timeout=_LOGIN_TIMEOUT_S,
            auth_timeout=_LOGIN_TIMEOUT_S,
        )
    except paramiko.PasswordRequiredException as error:
        raise _refused(client, f"expected a key without a passphrase, found one in {host.key}") from error
    except paramiko.AuthenticationException as error:
        offered = f"the key {host.key}" if host.key is not None else "any key of this user"
        raise _refused(
            client,
            f"expected host {host.name} to let {host.user} in with {offered}, found that it does not; "
            f"ssh-copy-id {host.user}@{host.address}",
        ) from error
    except paramiko.BadHostKeyException as error:
        raise _refused(
            client,
            f"expected host {host.name} to have the key that is known of it, found another; ssh-keygen -R {where}",
        ) from error
    except (UnknownKeyType, ValueError) as error:
        raise _refused(client, f"expected a private key in {host.key}, found: {_reason(error)}") from error
    except (paramiko.SSHException, OSError, EOFError) as error:
        if "not found in known_hosts" in str(error):
            advice = f"ssh-keyscan -p {host.port} {host.address} >> ~/.ssh/known_hosts"
            raise _refused(
                client, f"expected to know the key of host {host.name}, found that it is unknown; {advice}"
            ) from error
        raise _refused(
            client,
            f"expected host {host.name} to answer SSH at {where}, found: {_reason(error)}; "
            f"see that it is up, or take it out of the inventory",
        ) from error
    return client


def _refused(client: paramiko.SSHClient, line: str) -> EnvironmentFailed:
    client.close()
    return EnvironmentFailed(line)


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
