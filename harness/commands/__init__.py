"""The subcommands of `harrow`. They import large modules only when they run."""
