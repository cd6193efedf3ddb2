"""One replica of one partition: its state, and what a leader and a follower do with it."""
