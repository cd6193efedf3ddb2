"""The simulated cluster: virtual time, choices, transport, network, disks."""
