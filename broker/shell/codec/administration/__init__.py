"""Codecs of the administrative APIs."""
