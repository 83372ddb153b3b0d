"""The core tasks: plain functions of a context and a message, run by Celery and testable without it."""
