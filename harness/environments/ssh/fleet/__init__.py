"""Fleets: the hosts of an inventory, or VMs."""
