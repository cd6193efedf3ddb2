"""What the core needs of its host and gives to it: events and effects, files, time, marks."""
