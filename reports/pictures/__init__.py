"""Draws the pictures of a report."""
