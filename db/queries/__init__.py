"""What is read of the database: SELECT alone. Nothing here writes or locks."""
