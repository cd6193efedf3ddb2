"""aiokafka, the real library, as a client of the simulated cluster: on simulated time, network and randomness."""
