"""What people see: progress, colours, exit statuses, errors in one line."""
