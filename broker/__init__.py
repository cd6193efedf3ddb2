"""A Kafka-protocol broker and its controllers: the system under test. It does not know of the harness."""
