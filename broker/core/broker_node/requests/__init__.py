"""The requests that a broker answers: produce, fetch, queries, administration."""
