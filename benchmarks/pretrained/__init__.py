"""What jobs of few trials gain by the models that are shipped."""
