"""Finds the brokers of a cluster that runs already, over Kafka's protocol, and checks that each one answers.

Every mistake is one line: an address that is none, nobody who listens, something else than a Kafka broker, brokers of
two clusters, a broker whose advertised address cannot be reached from here, a broker that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from common.names import SpecError
from common.security import PLAIN_TEXT, Security, SecurityError, read_security
from harness.environments.base import Address, EnvironmentFailed
from harness.systems.sidecar.wire import BrokerConnection, NodeSilent

ANSWER_S = 3.0
_METADATA_VERSION_MAX = 9
_PORT_MAX = 65_535


@dataclass(frozen=True)
class FoundCluster:
    """A cluster as its brokers describe it."""

    cluster_id: str  # empty if they report none
    brokers: Mapping[int, Address]  # id → where clients reach it


def addresses_in(text: str) -> Sequence[Address]:
    """Parse HOST:PORT with commas, IPv6 hosts in brackets. Raises `SpecError`."""
    found = []
    for each in (part.strip() for part in text.split(",")):
        host, colon, port = each.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
            raise SpecError(f"bootstrap: expected HOST:PORT, with commas between several, found {each!r}")
        found.append((host, int(port)))
    return found


def discover(bootstrap: str, brokers: int | None = None, client_config: str = "") -> FoundCluster:
    """Find the cluster's brokers; `brokers` is how many the user expects, `client_config` the file for TLS and SASL.

    Raises `SpecError`, `EnvironmentFailed`.
    """
    given = addresses_in(bootstrap)
    security = security_of(client_config)
    described = {address: _describe(address, security) for address in given}
    ids = sorted({cluster.cluster_id for cluster in described.values()})
    if len(ids) > 1:
        raise EnvironmentFailed(
            f"bootstrap: expected brokers of one cluster, found those of {len(ids)} ({', '.join(ids)}); "
            "name brokers of one of them"
        )
    cluster = max(described.values(), key=lambda found: len(found.brokers))
    if brokers is not None and brokers != len(cluster.brokers):
        raise EnvironmentFailed(
            f"brokers: expected {brokers}, found {len(cluster.brokers)} in the cluster at {bootstrap}: "
            f"{', '.join(map(str, sorted(cluster.brokers)))}; start the others, or leave --brokers out"
        )
    for broker, address in sorted(cluster.brokers.items()):
        _require(broker, address, security)
    return cluster


def security_of(client_config: str) -> Security:
    """Read how to connect; without a file in plain text. Raises `SpecError`."""
    try:
        return read_security(client_config)
    except SecurityError as error:
        raise SpecError(str(error)) from error


def _describe(address: Address, security: Security) -> FoundCluster:
    where = f"{address[0]}:{address[1]}"
    connection = BrokerConnection(address, ANSWER_S, security)
    try:
        metadata = connection.ask(
            MetadataRequest(topics=[], allow_auto_topic_creation=False),
            MetadataResponse,
            at_most=_METADATA_VERSION_MAX,
        )
    except NodeSilent as silence:
        found = (
            "nobody who listens"
            if isinstance(silence.__cause__, ConnectionRefusedError)
            else f"none that answers as one ({silence.__cause__})"
        )
        how = "in plain text; name TLS or SASL with --client-config" if security == PLAIN_TEXT else security.protocol
        if security.encrypted:
            # A broker may hang up before it has said that it wants one.
            how += f" with {'the certificate ' + security.certificate if security.certificate else 'no certificate'}"
            how += " of the client's, of which a broker may want one that it trusts"
        raise EnvironmentFailed(
            f"bootstrap: expected a Kafka broker at {where}, found {found}; name the listener for clients of a broker "
            f"that runs (asked {how})"
        ) from silence
    finally:
        connection.close()
    brokers = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
    if not brokers:
        raise EnvironmentFailed(f"bootstrap: expected brokers in the metadata of {where}, found none; is it starting?")
    return FoundCluster(metadata.cluster_id or "", brokers)


def _require(broker: int, address: Address, security: Security) -> None:
    try:
        found = _describe(address, security)
    except EnvironmentFailed as failed:
        raise EnvironmentFailed(
            f"bootstrap: expected broker {broker} to answer at {address[0]}:{address[1]}, the address that it "
            f"advertises, found that it does not ({failed.__cause__}); every broker must be reachable from here"
        ) from failed
    if found.brokers.get(broker) != address:
        raise EnvironmentFailed(
            f"bootstrap: expected broker {broker} at {address[0]}:{address[1]}, found one that does not know itself by "
            "that address; the advertised listeners of the cluster lead to another one"
        )
