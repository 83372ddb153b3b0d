"""What it costs a core that others write next to it."""
