"""Tuners side by side: Tunesmith, random search and MetaSchedule's ``tune_tir``, alternating in one run."""
