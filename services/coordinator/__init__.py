"""The coordinator: the HTTP API and the loop that hands out work. It imports no compiler and no learning library."""
