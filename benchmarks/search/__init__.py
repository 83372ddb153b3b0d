"""The search alone: Tunesmith beside MetaSchedule on the same design space."""
