"""The options that say which records are meant, the same for every command about them."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from tunesmith.types import CacheState, Origin

Filters = Mapping[str, str | bool]
"""Parameters of the REST API that choose records, those that were given."""

OPTIONS: Mapping[str, Any] = {
    "workload": Annotated[str | None, typer.Option(help="Only this workload, by its hash.")],
    "family": Annotated[str | None, typer.Option(help="Only this operator, such as conv2d.")],
    "target": Annotated[str | None, typer.Option(help="Only this target: hash, device class or tag.")],
    "processor": Annotated[str | None, typer.Option(help="Only this processor, by its name.")],
    "precision": Annotated[str | None, typer.Option(help="Only this precision of jobs.")],
    "failure": Annotated[str | None, typer.Option(help="Only this failure; none: what ran; any: what did not.")],
    "simulated": Annotated[bool | None, typer.Option(help="Only what a simulated device invented, or what none did.")],
    "cache": Annotated[CacheState | None, typer.Option(help="Only this state of the caches.")],
    "job": Annotated[str | None, typer.Option(help="Only this job of yours.")],
    "origin": Annotated[Origin | None, typer.Option(help="Only what was measured here, or imported.")],
    "since": Annotated[dt.datetime | None, typer.Option(help="Only what was stored at this time (UTC) or later.")],
    "until": Annotated[dt.datetime | None, typer.Option(help="Only what was stored before this time (UTC).")],
}


def with_record_options(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with these options in place of its parameter ``wanted``, which gets those that were given."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {name: given.pop(name) for name in OPTIONS}
        command(wanted={name: _plain(value) for name, value in values.items() if value is not None}, **given)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        made = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in OPTIONS.items()
        ]
        parameters += made if parameter.name == "wanted" else [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _plain(value: Any) -> str | bool:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return value if isinstance(value, bool) else str(getattr(value, "value", value))
