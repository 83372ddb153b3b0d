"""Benchmarks of Tunesmith on this machine: ``tunesmith bench``. One package per benchmark."""
