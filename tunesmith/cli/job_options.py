"""The options of ``tune`` that are a job's: made from :class:`tunesmith.options.JobOptions`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import annotated_types
import typer
from pydantic.fields import FieldInfo

from tunesmith.extras import CHOICES
from tunesmith.options import JobOptions, choices


def with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with an option of the command line for each field in place of its parameter ``options``.

    That gets the fields that were given, not validated: the command refuses them in the command line's own words.
    """

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {name: given.pop(name) for name in JobOptions.model_fields}
        options = {name: value for name, value in values.items() if value is not None}
        command(options=JobOptions.model_construct(**options), **given)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        made = [_parameter(name, field) for name, field in JobOptions.model_fields.items()]
        parameters += made if parameter.name == "options" else [parameter]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    kind: Any = field.annotation
    flag = name.replace("_", "-")
    known = choices(name)
    # An upper bound that is exclusive is the command's to check: Typer has none such.
    most = next((limit.le for limit in field.metadata if isinstance(limit, annotated_types.Le)), None)
    least = next((limit.ge for limit in field.metadata if isinstance(limit, annotated_types.Ge)), None)
    option = typer.Option(
        f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}",
        help=_help(field, known),
        min=least if most is not None else None,  # type: ignore[arg-type]
        max=most,  # type: ignore[arg-type]
        autocompletion=(lambda: known) if known else None,
    )
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Annotated[kind | None, option]
    )


def _help(field: FieldInfo, known: list[str]) -> str:
    """With the default, the names that there are, and a mark at those that need an extra."""
    default = "yes" if field.default is True else field.default
    listed = ", ".join(name + ("*" if name in CHOICES else "") for name in known)
    extras = sorted({CHOICES[name][0] for name in known if name in CHOICES})
    needs = f" * needs the extra '{extras[0]}'." if extras else ""
    said = str(field.description).replace("`", "").rstrip(".") + (f": {listed}" if listed else "")
    return f"{said} (default: {default}).{needs}"
