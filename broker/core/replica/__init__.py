"""One replica of one partition: its state, and its behaviour as leader and as follower."""
