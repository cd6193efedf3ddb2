"""The pages of the store browser: runs, one run, two runs compared, suites over nights, trends."""
