"""A peer that sleeps as long as its file says, and writes down that it ran."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np


def prepare(model, inputs, threads):
    path = Path(model)
    kind, _, value = path.read_text().partition(" ")
    with path.with_name("log").open("a") as log:
        log.write(f"{path.name} {float(inputs['x'][0]):g}\n")
    if kind == "fail":
        raise SystemExit(value)
    if kind == "trap":
        os.kill(os.getpid(), int(value))

    def run():
        time.sleep(float(value) if kind == "sleep" else 0.0)
        x = {"lose": np.nan_to_num, "ceil": np.ceil}.get(kind, np.asarray)(inputs["x"])
        return [x + (float(value) if kind == "add" else 0.0) * np.ones(1, "float32")]

    return run
