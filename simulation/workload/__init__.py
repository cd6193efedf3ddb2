"""The simulated clients, the operator's requests, and the recorded history."""
