"""Codecs of the APIs that brokers and controllers use among themselves."""
