"""Helper processes on this machine: the supervisor, fork servers, duty cycles, and how they are spoken to."""
