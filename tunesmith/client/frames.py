"""Trials as a table of pandas, and where figures come from: what the extra ``notebook`` brings."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tunesmith.answers.jobs import TrialBody
from tunesmith.errors import MissingDependency

if TYPE_CHECKING:
    from pandas import DataFrame

EXTRA = "notebook"


def needed(module: str, purpose: str) -> Any:
    """A module of the extra. Raises MissingDependency."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = error.name or module
        raise MissingDependency(
            f"{purpose} needs {name}, which is not installed here: install the extra '{EXTRA}', for example with "
            f"pip install -e '.[{EXTRA}]'",
            field=name,
            extra=EXTRA,
        ) from error


def pandas() -> Any:
    """The library, before a server is asked for what it would hold. Raises MissingDependency."""
    return needed("pandas", "a table of trials")


def trials_frame(trials: Sequence[Mapping[str, Any]]) -> DataFrame:
    """One row a trial, by id; see :meth:`Client.trials_dataframe`."""
    made = pandas().DataFrame(list(trials), columns=list(TrialBody.model_fields))
    intervals = [each or (None, None) for each in made.pop("interval")]
    made["low"], made["high"] = [low for low, _ in intervals], [high for _, high in intervals]
    made = made.astype(dict.fromkeys(("latency", "low", "high"), "float64"))
    made["created_at"] = pandas().to_datetime(made["created_at"], utc=True)
    made["best"] = made.groupby("task")["latency"].cummin()
    return made.set_index("id")


def figures() -> Any:
    """The module that draws, before a server is asked for what it would draw. Raises MissingDependency."""
    return needed("tunesmith.client.figures", "a plot")
