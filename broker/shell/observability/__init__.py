"""What a node shows of itself: the admin endpoint, metrics, logs."""
