"""Parts that commands share: lazy loading, suggestions for names, the option `--store`."""
