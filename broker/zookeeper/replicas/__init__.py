"""What a broker of either design does with a replica: open and delete it, follow a leader, commit as leader."""
