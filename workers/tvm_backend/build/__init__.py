"""Candidates and models into libraries."""
