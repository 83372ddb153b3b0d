"""``python -m services.coordinator``."""

from __future__ import annotations

# ruff: noqa: E402 (first of all the working folder leaves the path: a file in it may be called like a library)
import sys

from tunesmith.safe_path import leave_working_folder

leave_working_folder(__file__)

from tunesmith.starting import undisturbed

with undisturbed():
    from services.coordinator.main import main

sys.exit(main())
