"""MetaSchedule's way of running a candidate, with a clock beside it.

Its worker processes import this module: nothing heavy at the top.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

LOG = "TUNESMITH_BENCH_EVALUATIONS"
"""Names the file to which each evaluation adds a line: when it ended, and its seconds."""


def run(module: Any, device: Any, config: Any, arguments: Any) -> list[float]:
    """What ``LocalRunner`` does by default; returns the seconds of each repeat."""
    from tvm.s_tir.meta_schedule.runner.utils import run_evaluator_common

    started = time.monotonic()
    try:
        return list(run_evaluator_common(module, device, config, arguments))
    finally:
        ended = time.monotonic()
        # One short write in append mode: lines of several processes do not mix.
        line = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(line, f"{json.dumps([ended, ended - started])}\n".encode())
        os.close(line)
