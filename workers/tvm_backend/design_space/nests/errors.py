"""What is wrong where a sketch has no nest."""

from __future__ import annotations


class NotUnderstoodError(Exception):
    """A program, or a sketch, that is beyond what nests can say."""


class AmbiguousError(NotUnderstoodError):
    """Several explanations fit: more replays tell."""
