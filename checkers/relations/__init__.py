"""Derives the relations that anomalies are found in: sends, polls, final reads, outcomes, leaders, groups."""
