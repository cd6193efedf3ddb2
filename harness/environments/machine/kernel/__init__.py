"""The Linux kernel's interfaces: system calls, process identity."""
