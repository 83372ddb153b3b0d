"""The command line ``tunesmith``."""
