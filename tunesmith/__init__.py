"""Tunesmith: a distributed auto-tuning service for tensor programs."""

__version__ = "0.1.0"
