"""A circuit breaker: a device that fails again and again is left alone for a while, and longer each time. Pure."""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


class Circuit(str, enum.Enum):
    """Whether work goes to the device."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"  # one piece of work finds out


@dataclass(frozen=True)
class BreakerRules:
    """When a device rests, and for how long.

    Attributes:
        in_row: failures in a row after which it rests; ``inf``: never.
        window: pieces of work that the share below is of.
        share: share of failures among the last ``window`` at which it rests, too.
        rest: seconds of the first rest; each that follows without a success in between is twice as long.
        longest: seconds that a rest takes at most.
    """

    in_row: float = 3
    window: int = 10
    share: float = 0.6
    rest: float = 15.0
    longest: float = 600.0


class Breaker:
    """Counts what is the device's fault, and nothing else: a candidate that crashes is no failure here.

    Args:
        clock: seconds, of a clock that is never set.
    """

    def __init__(self, rules: BreakerRules, clock: Callable[[], float]) -> None:
        self._rules, self._clock = rules, clock
        self._lately: deque[bool] = deque(maxlen=rules.window)
        self._row, self._rests, self._until = 0, 0, -math.inf
        self._circuit, self._reason = Circuit.CLOSED, ""

    @property
    def circuit(self) -> Circuit:
        """The state now; a rest ends by itself."""
        if self._circuit is Circuit.OPEN and self._clock() >= self._until:
            self._circuit = Circuit.HALF_OPEN
        return self._circuit

    @property
    def left(self) -> float:
        """Seconds until the rest ends, 0 when there is none."""
        return max(0.0, self._until - self._clock()) if self.circuit is Circuit.OPEN else 0.0

    @property
    def reason(self) -> str:
        """Why the device rests; empty when it does not."""
        return self._reason if self.circuit is Circuit.OPEN else ""

    def failed(self, why: str) -> None:
        """The device failed; ``why`` is shown while it rests for that."""
        probing = self.circuit is Circuit.HALF_OPEN
        self._lately.append(False)
        self._row += 1
        failures, rules = self._lately.count(False), self._rules
        often = len(self._lately) == rules.window and failures >= rules.share * rules.window
        if math.isinf(rules.in_row) or not (probing or often or self._row >= rules.in_row):
            return
        seconds = min(rules.longest, rules.rest * 2.0 ** min(self._rests, 30))
        self._circuit, self._until = Circuit.OPEN, self._clock() + seconds
        self._rests += 1
        count = f"{self._row} times in a row" if self._row > 1 else f"{failures} of {len(self._lately)} times"
        self._reason = f"the device failed {count}, at last: {why}; it rests for {seconds:g} s"
        self._lately.clear()

    def succeeded(self) -> None:
        """The device did what it should."""
        self._lately.append(True)
        self._row = 0
        if self.circuit is Circuit.HALF_OPEN:
            self._circuit, self._rests = Circuit.CLOSED, 0
