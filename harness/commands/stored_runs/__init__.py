"""The commands `harrow prune`, `diff`, `serve` and `lift`, about runs in the store."""
