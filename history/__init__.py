"""The history of a run: schemas of its tables, writers and readers; and what is known of anomalies, rules and promises."""
