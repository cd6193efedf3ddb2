"""Helper processes on this machine: the supervisor, fork servers, duty cycles, and the protocol with them."""
