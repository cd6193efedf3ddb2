"""Codecs of the APIs that producers and consumers use."""
