"""Libraries that only some searchers need, imported when one of these is made: the light install lacks them."""

from __future__ import annotations

import importlib
from typing import Any

from tunesmith.errors import MissingDependency


def extra(module: str, searcher: str) -> Any:
    """A module of the extra ``search``.

    Raises:
        MissingDependency: where it is not installed; the detail says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"the searcher {searcher!r} needs {module.split('.')[0]}: install the extra 'search', "
            "for example with: pip install 'tunesmith[search]'",
            field="search",
            value=searcher,
        ) from error
