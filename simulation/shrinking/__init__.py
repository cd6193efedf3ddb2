"""Makes a failing simulation smaller."""
