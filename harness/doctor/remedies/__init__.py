"""Remedies for capabilities that this machine lacks: a table of capability, cause and remedy (`table`)."""
