"""The agent: runs on each host and does there what faults ask."""
