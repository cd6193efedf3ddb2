"""The second design: a partition's leader alone drives its state, by queued requests that carry the leader's epoch."""
