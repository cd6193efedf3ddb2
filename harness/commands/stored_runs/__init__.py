"""The commands `harrow prune` and `diff`, about runs in the store."""
