"""Short tasks that run as processes on the clients' network: create a topic, administer a cluster."""
