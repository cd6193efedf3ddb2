"""Short tasks that run as processes where clients are: create a topic, administer a cluster."""
