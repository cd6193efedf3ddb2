"""The designs themselves: the two whose replicas race for a leader znode, and the one with a controller."""
