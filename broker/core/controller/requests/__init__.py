"""The requests that the controller answers, one module each."""
