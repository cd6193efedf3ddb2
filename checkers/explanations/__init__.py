"""Explains each finding in one to three sentences."""
