"""A replica's log on disk: segments of record batches, leader epochs, producer state, and recovery."""
