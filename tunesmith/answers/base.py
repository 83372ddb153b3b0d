"""Parts that all bodies share."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from typing_extensions import Self

Item = TypeVar("Item")


class Body(BaseModel):
    """A request's body: nothing unknown is let through."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """What a route answers."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def of(cls, row: object, **others: Any) -> Self:
        """Fields from the row's attributes of the same names, but for those that are given as ``others``."""
        return cls(**{name: getattr(row, name) for name in cls.model_fields.keys() - others.keys()}, **others)

    @classmethod
    def read(cls, answer: object) -> Self:
        """An answer in JSON, without the fields that only a newer server knows."""
        return cls.model_validate(answer, extra="ignore")


class Page(Answer, Generic[Item]):
    """Part of a list; ``next_cursor`` is null on the last page.

    ``total``: items of the whole list. Null where they are not counted, and where there are more than 100,000.
    """

    items: list[Item]
    next_cursor: str | None = None
    total: int | None = None
