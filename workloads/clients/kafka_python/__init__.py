"""Drives kafka-python 3, the default client."""

from collections.abc import Callable
from functools import partial

from workloads.clients.base import ClientLibrary, ClientSettings, Consumer, Producer
from workloads.clients.kafka_python.administrator import KafkaPythonAdministrator
from workloads.clients.kafka_python.consumer import KafkaPythonConsumer
from workloads.clients.kafka_python.member import KafkaPythonMember
from workloads.clients.kafka_python.producer import KafkaPythonConnection
from workloads.clients.optional_interfaces import Assignor, GroupMember, Membership, TopicAdministrator
from workloads.clients.producers import RenewingProducer

__all__ = ["library"]


class _KafkaPython:
    name = "kafka-python"
    assignors: frozenset[Assignor] = frozenset({"eager", "cooperative"})

    def producer(self, settings: ClientSettings) -> Producer:
        """Connect a producer."""
        return RenewingProducer(partial(KafkaPythonConnection, settings))

    def consumer(self, settings: ClientSettings) -> Consumer:
        """Connect a consumer."""
        return KafkaPythonConsumer(settings)

    def member(self, settings: ClientSettings, membership: Membership, now: Callable[[], int]) -> GroupMember:
        """Create a member of a group."""
        return KafkaPythonMember(settings, membership, now)

    def administrator(self, settings: ClientSettings) -> TopicAdministrator:
        """Connect an administrator."""
        return KafkaPythonAdministrator(settings)


def library() -> ClientLibrary:
    """Return the client library."""
    return _KafkaPython()
