"""The broker under test: a Kafka-protocol broker and its controllers. It knows nothing of the harness."""
