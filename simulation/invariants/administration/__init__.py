"""Checks that administrators are told what is so, and that nothing is deleted that nobody has asked for."""
