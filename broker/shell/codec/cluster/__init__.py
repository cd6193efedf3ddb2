"""Codecs of the APIs between brokers and controllers."""
