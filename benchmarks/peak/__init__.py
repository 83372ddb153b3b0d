"""What this machine can do at best: arithmetic, and reading from each cache level and the memory."""
