"""The core's interface to its host: events and effects, files, time, marks."""
