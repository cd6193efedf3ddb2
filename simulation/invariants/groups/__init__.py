"""Checks the coordinators of consumer groups against the committed records of the offsets topic (P-G1 to P-G4)."""
