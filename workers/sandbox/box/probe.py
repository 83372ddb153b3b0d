"""Which walls this system has: each is tried."""

from __future__ import annotations

import functools
import json
import os
import tempfile
from pathlib import Path

from tunesmith.child_process import run_to_end
from tunesmith.errors import MissingDependency
from tunesmith.safe_path import python
from workers.sandbox.box.base import Confinement, Limits
from workers.sandbox.box.entering import enter
from workers.sandbox.box.walls import WALLS

PROBE_SECONDS = 30.0
REMEDY = (
    "use a kernel with Landlock (5.13 or later), allow user namespaces, or run the service as root; "
    "TUNESMITH_TRUST_MODELS=1 does without, for an installation where everybody who uploads models is trusted"
)


@functools.lru_cache(maxsize=1)
def probe() -> dict[str, str]:
    """For each wall the reason why this system does not offer it, empty where it does. Tried once in a process."""
    done = run_to_end(python("workers.sandbox.box.probe"), PROBE_SECONDS)
    if done.returncode != 0:
        return dict.fromkeys(WALLS, f"the probe failed: {done.stderr.strip()[-300:]}")
    return dict(json.loads(done.stdout))


def choose(trust: bool) -> tuple[str, ...]:
    """The walls of this system.

    Args:
        trust: where there are none, do without.

    Raises:
        MissingDependency: there are none.
    """
    found = probe()
    walls = tuple(name for name, reason in found.items() if not reason)
    if not walls and not trust:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in found.items())
        raise MissingDependency(
            f"this system offers no sandbox for untrusted code ({reasons}): {REMEDY}", field="TUNESMITH_TRUST_MODELS"
        )
    return walls


def tried(name: str) -> str:
    """Enter a wall in a child, as boxed processes do: why that does not work, or empty."""
    read, write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="tunesmith-probe-") as outer:
        folder, secret = Path(outer).resolve() / "folder", Path(outer).resolve() / "secret"
        folder.mkdir()
        secret.write_text("secret", encoding="ascii")
        pid = os.fork()
        if pid == 0:
            os.close(read)
            os.write(write, _inside(name, folder, secret, write).encode()[:1000])
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as answer:
            said = answer.read().decode(errors="replace")
        _, status = os.waitpid(pid, 0)
    return said.removesuffix(".") if said and status == 0 else f"ended with {status}"


def _inside(name: str, folder: Path, secret: Path, answer: int) -> str:
    """``.`` where the wall holds and leaves what a process needs."""
    try:
        enter(Confinement(folder, Limits(), (name,)), keep=(answer,))
        (folder / "written").write_bytes(b"1")
        Path(os.__file__).read_bytes()
    except Exception as error:  # whatever it is, the wall is no use
        return f"{type(error).__name__}: {error}"
    try:
        secret.read_bytes()
    except OSError:
        return "."
    return "it hides nothing"


if __name__ == "__main__":
    print(json.dumps({name: tried(name) for name in WALLS}))
