"""``python -m tunesmith.cli``."""

# ruff: noqa: E402 (first of all the working folder leaves the path: a file in it may be called like a library)
from tunesmith.safe_path import leave_working_folder

leave_working_folder(__file__)

from tunesmith.cli.main import main

if __name__ == "__main__":
    main()
