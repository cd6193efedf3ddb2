"""The history of a run: schemas of its tables, writers and readers; catalogues of anomalies, rules and promises."""
