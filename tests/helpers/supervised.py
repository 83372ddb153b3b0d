"""A supervisor in a process of its own: ``python -m supervised FOLDER NAME=command…``, with short waits."""

from __future__ import annotations

import sys
from pathlib import Path

from services.embedded import child, supervisor
from services.embedded.child import ChildSpec
from services.embedded.lock import data_dir_lock
from tunesmith.errors import TunesmithError


def main() -> int:
    """Supervise shell commands until told to stop; prints ``ready`` and, at a failure, its detail."""
    import os

    child.FIRST_BACKOFF, supervisor.GRACE = 0.01, 0.5
    folder = Path(sys.argv[1])
    specs = [
        ChildSpec(name, ("sh", "-c", command), dict(os.environ))
        for name, _, command in (argument.partition("=") for argument in sys.argv[2:])
    ]
    try:
        with data_dir_lock(folder, "http://127.0.0.1:1"):
            supervisor.Supervisor(
                specs,
                folder / "logs",
                ready=lambda: True,
                on_ready=lambda: print("ready", flush=True),
                watch=sys.stdin.fileno(),
            ).run()
    except TunesmithError as error:
        print(error.code, error.detail, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
