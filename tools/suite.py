"""The whole test suite: ``python -m tools.suite``. Its three phases are in ``CONTRIBUTING.md``.

Tests of stacks wait for one another's processes a third of the time, so the parallel tests run meanwhile, at the lowest
priority: they take what is left over, and hold up no stack. Tests that measure run last, with nothing beside them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Threads of several processes that wait for each other on the same cores make tests several times slower."""
PARALLEL = ("--phase", "parallel", "--numprocesses", "logical", "--maxprocesses", "8", "--dist", "loadfile")
PAIR = ("--phase", "pair", "--numprocesses", "2", "--dist", "loadfile")
ALONE = ("--phase", "alone")
LOWEST = 19
END_SECONDS = 30.0


@contextlib.contextmanager
def running(arguments: Sequence[str], output: IO[bytes] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A pytest, ended at the latest with the block; one whose output goes to a file has the lowest priority."""
    env = os.environ if arguments == ALONE else os.environ | ONE_THREAD
    command = [sys.executable, "-m", "pytest", *arguments]
    if output is not None:
        command = ["nice", "-n", str(LOWEST), *command]
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # it ends its own processes then
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main() -> int:
    """Run the phases; 0 where all of them passed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryFile() as output:
        try:
            with running(PARALLEL, output) as beside, running(PAIR) as pair:
                passed = not pair.wait() | beside.wait()
        finally:
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
    with running(ALONE) as alone:
        return int(alone.wait() != 0 or not passed)


if __name__ == "__main__":
    sys.exit(main())
