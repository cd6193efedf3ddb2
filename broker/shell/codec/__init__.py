"""Kafka's wire protocol: converts between bytes and the core's messages."""
