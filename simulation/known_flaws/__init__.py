"""Hunts for known flaws of the protocol, and the table of who finds which."""
