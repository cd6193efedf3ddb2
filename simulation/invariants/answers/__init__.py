"""Checks that what brokers say to those who read and write is so."""
