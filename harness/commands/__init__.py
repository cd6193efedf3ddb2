"""The subcommands of `harrow`, one module each. They import large modules only when they run."""
