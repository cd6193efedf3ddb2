"""What clients do to the cluster, and the record of what they saw."""
