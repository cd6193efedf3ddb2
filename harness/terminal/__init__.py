"""Terminal output: progress, consoles, exit statuses, one-line errors."""
