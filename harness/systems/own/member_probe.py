"""Asks one member of an ensemble for its state, and reads the partitions from the tree of znodes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from broker.zookeeper import paths
from broker.zookeeper.designs.controller import znodes

_ANSWER_S = 0.3
"""A member that serves answers within milliseconds."""

_SESSION_S = 10.0
_BY_LEADERS = frozenset({"leader", "standalone"})
_ANSWER_BYTES_MAX = 1 << 16


class MemberSilent(Exception):
    """The member does not serve. The message says what was found."""


class MemberProbe:
    """One member, asked from its own network. Its methods may be called from several threads."""

    def __init__(self, address: tuple[str, int], data: Path) -> None:
        self._address = address
        self._data = data
        self._turn = threading.Lock()
        self._client: KazooClient | None = None

    def state(self) -> dict[str, Any]:
        """Its role, the epoch of the leader that it follows or is, and how far its log goes. Raises `MemberSilent`.

        A follower that serves has all that was committed before its leader's epoch, even if its last transaction is of
        an earlier one.
        """
        told = _srvr(self._ask())
        epoch = self._epoch()
        last = max(int(told.get("Zxid", "0x0"), 16), epoch << 32)
        role = "leader" if told["Mode"] in _BY_LEADERS else "follower"
        return {"role": "controller", "lifecycle": "running", "quorum_role": role, "epoch": epoch, "log_end": last}

    def partitions(self) -> dict[str, Any]:
        """The partitions that are published, by this member's tree. Raises `MemberSilent`."""
        with self._turn:
            try:
                return {"partitions": list(_partitions(self._connected()))}
            except (KazooException, KazooTimeoutError) as error:
                raise MemberSilent(f"expected the tree of znodes, found: {error!r}") from error

    def _connected(self) -> KazooClient:
        if self._client is None:
            host, port = self._address
            retry = {"max_tries": -1, "delay": 0.05, "max_delay": 0.5}
            self._client = KazooClient(f"{host}:{port}", timeout=_SESSION_S, read_only=False, connection_retry=retry)
            self._client.start_async().wait(_ANSWER_S)
        if not self._client.connected:
            raise MemberSilent("expected a session with the member, found none")
        return self._client

    def _ask(self) -> str:
        try:
            with socket.create_connection(self._address, _ANSWER_S) as link:
                link.settimeout(_ANSWER_S)
                link.sendall(b"srvr")
                answer = b""
                while (piece := link.recv(4096)) and len(answer) < _ANSWER_BYTES_MAX:
                    answer += piece
        except OSError as error:
            raise MemberSilent(f"expected an answer to srvr, found: {error}") from error
        return answer.decode(errors="replace")

    def _epoch(self) -> int:
        """A member of an ensemble writes it down before it follows; one that is alone has none."""
        try:
            return int((self._data / "version-2" / "currentEpoch").read_text())
        except (FileNotFoundError, ValueError):
            return 0


def _srvr(text: str) -> Mapping[str, str]:
    """The lines of an answer to `srvr`. Raises `MemberSilent` if the member serves nobody."""
    told = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if "Mode" not in told:
        raise MemberSilent(f"expected a member that serves, found: {text.strip()[:200]!r}")
    return told


def _partitions(client: KazooClient) -> Iterator[dict[str, Any]]:
    for topic in _children(client, paths.TOPICS):
        if assignment := _read(client, paths.topic(topic)):
            yield from _controlled(client, topic, znodes.decoded_assignment(assignment, paths.topic(topic)))
            continue
        for name in sorted(_children(client, paths.topic(topic)), key=int):
            key = (topic, int(name))
            replicas = _read(client, paths.replicas(key))
            if replicas is None:
                continue  # it is being created
            isr, _, epoch = (_read(client, paths.insync(key)) or b"").partition(b";")
            leader = paths.decoded(_read(client, paths.leader(key)) or b"", paths.leader(key))
            yield {
                "topic": topic,
                "partition": key[1],
                "leader": leader[0] if leader else -1,
                "leader_epoch": int(epoch or -1),
                "isr": list(paths.decoded(isr, paths.insync(key))),
                "elr": [],
                "replicas": list(paths.decoded(replicas, paths.replicas(key))),
            }


def _controlled(client: KazooClient, topic: str, assignment: Mapping[int, tuple[int, ...]]) -> Iterator[dict[str, Any]]:
    """With a controller: the topic has the assignment, and each partition one node for all that changes."""
    for number, replicas in sorted(assignment.items()):
        path = znodes.state((topic, number))
        data = _read(client, path)
        if data is not None:  # else the controller has not seen it yet
            state = znodes.decoded_state(data, path)
            yield {
                "topic": topic,
                "partition": number,
                "leader": state.leader,
                "leader_epoch": state.leader_epoch,
                "isr": list(state.isr),
                "elr": [],
                "replicas": list(replicas),
            }


def _children(client: KazooClient, path: str) -> list[str]:
    try:
        return sorted(client.get_children(path))
    except NoNodeError:
        return []


def _read(client: KazooClient, path: str) -> bytes | None:
    try:
        data: bytes = client.get(path)[0]
    except NoNodeError:
        return None
    return data
