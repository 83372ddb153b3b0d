"""From an imported module to the tasks that are tuned."""
