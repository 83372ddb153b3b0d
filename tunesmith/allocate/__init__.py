"""Allocators: which task to tune next."""
