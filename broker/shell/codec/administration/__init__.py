"""Codecs of the APIs that administrators use."""
