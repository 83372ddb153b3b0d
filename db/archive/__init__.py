"""Copies of everything, in one file."""
