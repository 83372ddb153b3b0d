"""Tuned schedules in a user's own TVM pipeline: a database, and the pass that brings a module into the tuned form.

>>> import tunesmith
>>> database = tunesmith.tvm.Database("lab:8700")                  # doctest: +SKIP
>>> with target, database:                                         # doctest: +SKIP
...     mod = tunesmith.tvm.prepare(database=database)(mod)
...     mod = relax.get_pipeline("zero")(mod)
>>> print(database.report())                                       # doctest: +SKIP
"""

from __future__ import annotations

from tunesmith.errors import MissingDependency
from tunesmith.extras import here

if not (here("tvm") and here("workers")):
    raise MissingDependency(
        "tunesmith.tvm needs TVM and Tunesmith's passes, which are not installed here: clone the repository and run "
        "'make venv', or there 'pip install -e .[worker]'",
        extra="worker",
    )

from tunesmith.tvm.database import Database, Report
from tunesmith.tvm.passes import defaults, load, prepare

__all__ = ["Database", "Report", "defaults", "load", "prepare"]
