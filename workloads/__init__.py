"""Client workloads, and the recording of what their clients observed."""
