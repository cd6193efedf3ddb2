"""One node for real: sockets, files, clock, wire codec, settings and admin endpoint around `broker.core`."""
