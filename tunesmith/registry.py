"""Implementations by name, which refuse a name that is not there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from tunesmith.errors import InvalidInput

Value = TypeVar("Value")


def check_name(field: str, name: str, known: Collection[str], error: type[InvalidInput]) -> None:
    """Refuse a ``name`` that is none of the ``known`` ones. Raises ``error``, naming ``field`` and those there are."""
    if name not in known:
        what, there = field.replace("_", " "), ", ".join(sorted(known))
        raise error(f"there is no {what} {name!r}; there are {there}", field=field, value=name)


class Registry(dict[str, Value]):
    """What the option ``field`` of a job names; ``registry[name]`` raises ``error`` for a name that is not there."""

    def __init__(self, field: str, error: type[InvalidInput], entries: Mapping[str, Value]) -> None:
        super().__init__(entries)
        self.field, self.error = field, error

    def __missing__(self, name: str) -> Value:
        self.check(name)
        raise KeyError(name)

    def check(self, *names: str) -> tuple[str, ...]:
        """The ``names``, each once. Raises the registry's error for one that is not there."""
        for name in names:
            check_name(self.field, name, self, self.error)
        return tuple(dict.fromkeys(names))
