"""Other runtimes, each in a process of its own, for ``tunesmith compare``."""
