"""How a job gets on: its curve, and what is expected of it."""

from __future__ import annotations

from pydantic import BaseModel

from tunesmith.answers.base import Answer


class CurvePoint(BaseModel):
    """Estimated latency of the model after some trials.

    ``seconds`` is when that was known, ``device_seconds`` time spent running candidates. ``tasks_rough`` tasks had no
    round until then, and count at the rough latency of their default schedules.
    """

    trials: int
    seconds: float
    device_seconds: float
    latency: float
    tasks_rough: int = 0


class CurveBody(BaseModel):
    """Best-so-far, down-sampled, summed over the tunable ``tasks``. Empty until each of them has a latency: a rough one
    of its default schedule, which a job takes as it begins, or a measured one."""

    untuned: float | None
    tasks: int
    tasks_measured: int
    points: list[CurvePoint]


class ForecastBody(Answer):
    """What is expected of a job when its budget is spent; null while that cannot be told.

    ``expected``, ``low`` and ``high`` are seconds of one run of the model, as the estimate from its tasks, the last two
    an interval that is meant to hold it with probability ``level``. ``rounds`` are those to come till then.
    ``passes_reference_in``: seconds of further tuning after which a job whose check is done is expected to be as fast
    as its ``reference``; null where it is already, or that cannot be told.
    """

    seconds: float | None
    rounds: int | None
    current: float | None
    expected: float | None
    low: float | None
    high: float | None
    level: float
    passes_reference_in: float | None = None


class RooflineBody(Answer):
    """The roofline bound of a job's model: no schedule of its tunable tasks runs it in fewer seconds on the device.

    Each task takes its operations at the peak that was measured of the device, or reads and writes its arguments once
    where no cache holds them. Null before a real device of the job's class was calibrated.
    """

    seconds: float | None
    peak_flops: float | None
    bandwidth: float | None
