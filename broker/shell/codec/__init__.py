"""Kafka's wire protocol: bytes to the core's messages and back."""
