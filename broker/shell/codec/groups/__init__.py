"""Codecs of the APIs of consumer groups."""
