"""Codecs of the consumer-group APIs."""
