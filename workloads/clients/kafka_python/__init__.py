"""kafka-python 3, the default client."""

from workloads.clients.base import ClientLibrary, ClientSettings, Consumer, Producer
from workloads.clients.kafka_python.consumer import KafkaPythonConsumer
from workloads.clients.kafka_python.producer import KafkaPythonProducer

__all__ = ["library"]


class _KafkaPython:
    name = "kafka-python"

    def producer(self, settings: ClientSettings) -> Producer:
        """Connect a producer."""
        return KafkaPythonProducer(settings)

    def consumer(self, settings: ClientSettings) -> Consumer:
        """Connect a consumer."""
        return KafkaPythonConsumer(settings)


def library() -> ClientLibrary:
    """Give the client library."""
    return _KafkaPython()
