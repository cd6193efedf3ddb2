"""The properties that an exhaustive search checks in every state."""
