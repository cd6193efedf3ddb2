"""What simulated clients do, and the history of what they saw."""
