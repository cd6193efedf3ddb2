"""Writes the sentences and tables of a report."""
