"""What is written to the database: one function is one business step, inside its caller's transaction."""
