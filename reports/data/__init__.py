"""Loads a stored run as the arrays and tables that pages and pictures are made of."""
