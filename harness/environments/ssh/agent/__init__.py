"""The agent: runs on each host and carries out faults there."""
