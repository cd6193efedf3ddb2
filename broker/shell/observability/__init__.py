"""A node's admin endpoint, metrics and logs."""
