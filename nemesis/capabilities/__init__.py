"""What faults ask of a cluster: nodes, links, disks, clocks, administration."""
