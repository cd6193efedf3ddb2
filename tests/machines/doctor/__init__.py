"""Reduced machines each of which has one cause of doctor's table, and on which its remedy is tried."""
