"""What this machine's kernel does for an environment: processes and what holds them, their nodes, their clocks."""
