"""Helper processes on this machine: how programs start, the supervisor, duty cycles, and the protocol with them."""
