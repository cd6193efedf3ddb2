"""Derives the relations that anomalies are found in: sends, reads, final reads, outcomes, groups, cluster events."""
