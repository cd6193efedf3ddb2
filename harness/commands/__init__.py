"""The subcommands of `harrow`, one module each. What is heavy is imported when a command runs."""
