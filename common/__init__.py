"""What all packages but the broker may use: names in messages, named files, atomic writes, directories of the user."""
