"""Segments of a log: files of batches, their indexes, and the search in them."""
