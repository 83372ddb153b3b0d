"""``python -m tunesmith.cli``."""

from tunesmith.cli.main import main

if __name__ == "__main__":
    main()
