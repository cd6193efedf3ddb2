"""History to anomalies and verdict, on Spark. `checkers.check.check` is the way in."""
