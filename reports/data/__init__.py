"""A stored run as arrays and tables that pages and pictures are made of."""
