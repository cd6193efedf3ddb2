"""Where hosts come from: an inventory, or VMs."""
