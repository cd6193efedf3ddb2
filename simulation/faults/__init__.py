"""The faults of a simulation: their schedule, their effects, the budget of losses."""
