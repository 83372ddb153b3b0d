"""What happens next: a pure plan over a snapshot of the database, and the loop that carries it out."""
