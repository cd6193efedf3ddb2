"""Schemas of the APIs between nodes, which kafka-python lacks, in the syntax of Kafka's; folders as in `cluster`."""
