"""Schemas of group protocols that the broker refuses."""
