"""The node's disk: POSIX files, several log directories, fsync on threads, a ledger of synced data."""
