"""Searches for every known flaw of the protocol, and tables of which layer finds which."""
