"""Tunesmith: a distributed auto-tuning service for tensor programs.

>>> import tunesmith
>>> tuned = tunesmith.tune(net, (images,), time=60)          # doctest: +SKIP
>>> probabilities = tuned(images)                            # doctest: +SKIP
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_LAZY = {"tune": "tunesmith.sdk.tuning", "TunedModel": "tunesmith.sdk.tuned"}
"""Names that are imported when they are used: most programs that import a part of Tunesmith need none of them."""
_ROOMS = ("helion", "torch", "tvm")
"""Packages that need one of these libraries, likewise."""


# Nothing of typing: for `python -m` a folder's own typing.py comes first, until safe_path is there.
def __getattr__(name):  # type: ignore[no-untyped-def]
    if name in _ROOMS:
        return importlib.import_module(f"tunesmith.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_ROOMS})
