"""Which candidates of a batch are measured again next to the champion, and what follows from it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tunesmith.measuring.pairs import faster
from tunesmith.messages import Confirmation, MeasureLimits, WireCandidate, WireResult
from tunesmith.types import FailureKind, TensorSpec
from workers.protocol import Confirmed, RunOutcome

BFLOAT16_STEP: Final = 2.0**-7
"""Distance of neighbouring bfloat16 numbers, as part of the smaller one, at most."""
CODE_STEP: Final = 2.0**-6
"""Distance of neighbouring codes of a byte, as part of the largest one that usual values make."""
TOLERANCES: Final[Mapping[str, float]] = MappingProxyType(
    {
        "float64": 1e-10,
        "float32": 1e-4,
        "float16": 2e-2,
        "bfloat16": 1e-1,
    }
)
"""Largest ``max|a-b| / max|b|`` of a right result, by element type.

A schedule may sum in another order. The rounding errors of a sum of K terms then differ by some ``sqrt(K) u`` of the
sum (u the unit roundoff; Higham, Accuracy and Stability of Numerical Algorithms, 2002, §2.8 and §4): K of a million in
double and single precision, of a thousand in the short formats, whose long sums are kept in a wider one. A kernel that
forgets one term of a thousand errs by some 1e-2 of the largest output.
"""
SHORT_FLOAT: Final = 0.3
"""The same for floating point of eight bits and less, and for types that are not in the table."""

FAR_RATIO: Final = 2.0
"""A default schedule that takes so many times as long needs no pairs with the first finalist of a task to be beaten."""
CLOSE_RATIO: Final = 1.02
"""Finalists whose medians lie within this factor may have come in in either order."""


def choose(results: Mapping[int, float], incumbent: float | None, limits: MeasureLimits) -> list[int]:
    """Indices of the finalists, fastest first: at most ``limits.finalists`` that beat the incumbent.

    Args:
        results: latencies in seconds by index.
        incumbent: latency to beat in seconds; None when there is none.
    """
    to_beat = math.inf if incumbent is None else incumbent
    contenders = [index for index, latency in results.items() if 0 < latency < to_beat]
    return sorted(contenders, key=lambda index: (results[index], index))[: limits.finalists]


def conclude(
    result: WireResult,
    confirmed: Confirmed,
    trace: str | None,
    args: tuple[TensorSpec, ...],
    limits: MeasureLimits,
    champion: WireCandidate | None = None,
) -> WireResult:
    """A finalist's result after its confirmation: a winner with its trace, an also-ran, or a failure.

    One whose outputs are wrong, or that fails when it is measured again, keeps no samples: its speed is worth
    nothing. A lost device says nothing of it. Where the outputs cannot be compared although they are to be, it does not
    win: the task keeps what it has.

    Args:
        result: result of the race.
        trace: the final trace's JSON.
        args: arguments of the workload, for the tolerance.
        champion: whom ``confirmed.champion_samples`` are of; None: of the default schedule, or there are none.
    """
    changed: dict[str, Any] = {
        "run_seconds": result.run_seconds + confirmed.seconds,
        "device_seconds": result.device_seconds + confirmed.device_seconds,
    }
    if confirmed.failure is FailureKind.DEVICE_LOST:
        return result.model_copy(update=changed)
    allowed = max(tolerance(args), confirmed.unsteady)
    failure, message = _verdict(confirmed, allowed)
    p_value = None if failure else faster(confirmed.samples, confirmed.champion_samples)
    unchecked = failure is None and confirmed.error is None and bool(confirmed.message)
    won = failure is None and not unchecked and (p_value is None or p_value < limits.significance)
    confirmation = Confirmation(
        samples=_possible(confirmed.samples),
        champion_samples=_possible(confirmed.champion_samples),
        champion=champion if confirmed.champion_samples else None,
        p_value=p_value,
        error=confirmed.error if confirmed.error is None or math.isfinite(confirmed.error) else None,
        tolerance=None if confirmed.error is None else allowed,
        won=won,
    )
    if unchecked:
        changed |= {"message": f"its outputs cannot be checked: {confirmed.message}"}
    if failure is not None:
        changed |= {"samples": [], "failure": failure, "message": message, "stopped": None}
    return result.model_copy(update={**changed, "confirmation": confirmation, "trace": trace if won else None})


def lasting(outcome: RunOutcome | None, result: WireResult) -> RunOutcome | None:
    """What a later candidate with the same code gets: the race's outcome, unless the confirmation found it wrong."""
    if outcome is None or result.failure is None:
        return outcome
    return RunOutcome(failure=result.failure, message=result.message)


def settled(last: WireResult, fastest: float | None, latency: float | None) -> bool:
    """True when the next finalist need not be measured again: the last one is sound, and it is not as fast.

    Args:
        last: the finalist before, concluded.
        fastest, latency: medians of the race in seconds, of the first finalist and of the next.
    """
    return last.failure is None and fastest is not None and latency is not None and latency > CLOSE_RATIO * fastest


def tolerance(args: Sequence[TensorSpec]) -> float:
    """Largest error of a right result: of the coarsest type among the arguments, 0 where all of them are integers.

    What a kernel rounds to bfloat16 or to codes by itself may be off by one step of it.
    """
    floats = [spec.meaning for spec in args if not spec.meaning.startswith(("int", "uint", "bool"))]
    if floats and args[-1].dtype == "uint8":
        return CODE_STEP
    if args and args[-1].meaning != args[-1].dtype:
        return BFLOAT16_STEP
    if any(spec.meaning != spec.dtype for spec in args):
        return TOLERANCES["float32"]
    return max((TOLERANCES.get(dtype, SHORT_FLOAT) for dtype in floats), default=0.0)


def _possible(samples: Sequence[float]) -> list[float]:
    """The samples, or none of them where the device's clock told nonsense: a report holds times that can be."""
    return list(samples) if all(0 < sample < math.inf for sample in samples) else []


def _verdict(confirmed: Confirmed, allowed: float) -> tuple[FailureKind | None, str]:
    if confirmed.failure is not None:
        return confirmed.failure, f"when measured again: {confirmed.message}"
    if confirmed.error is not None and not confirmed.error <= allowed:
        text = f"outputs differ from the default schedule's by {confirmed.error:.3g} of their largest value"
        return FailureKind.WRONG_RESULT, f"{text}, more than {allowed:g}"
    if not confirmed.samples or not _possible([*confirmed.samples, *confirmed.champion_samples]):
        return FailureKind.IMPLAUSIBLE, "when measured again, the device gave no time that can be"
    return None, ""
