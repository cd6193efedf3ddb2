"""Checks progress while faults go on: members of the ISR leave and return in time, batches are refused with reason."""
