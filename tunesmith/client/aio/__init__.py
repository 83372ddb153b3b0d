"""The asynchronous client, from which ``python -m tools.sync_client`` writes the synchronous one next to it."""
