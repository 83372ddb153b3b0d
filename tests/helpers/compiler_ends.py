"""A builder whose compiler ends its process."""

from __future__ import annotations

import os
import signal

from workers.protocol import BuildRequest, Built

SIGNALS = {"crash": signal.SIGSEGV, "overrun": signal.SIGALRM}


class Compiler:
    """Hosted by a pool's child.

    Args:
        end: ``crash``, or ``overrun`` of the builder's own alarm.
    """

    def __init__(self, end: str) -> None:
        self._signal = SIGNALS[end]

    def build(self, request: BuildRequest) -> Built:
        """Never returns."""
        os.kill(os.getpid(), self._signal)
        raise AssertionError("unreachable")
