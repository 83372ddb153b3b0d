"""Searchers: what to measure next within one task."""
