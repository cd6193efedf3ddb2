"""Schemas of the APIs between brokers, which kafka-python lacks, in the syntax of Kafka's own."""
