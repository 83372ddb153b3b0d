"""The edge worker: builds and measures what messages ask for; it has no database."""
