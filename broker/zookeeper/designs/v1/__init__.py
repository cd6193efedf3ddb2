"""The first design: every replica reacts to watches, and leaders tell followers what to do through znodes."""
