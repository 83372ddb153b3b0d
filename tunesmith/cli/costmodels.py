"""``tunesmith costmodels``: list, show, train; ``evaluate`` belongs to the server side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tunesmith.answers.fleet import CostModelBody
from tunesmith.cli.options import Cursor, Json, Key, Limit, Server, connect
from tunesmith.cli.output import emit, rows, table
from tunesmith.cli.plugins import side_command

EVALUATE = "Compare the static model, the ranker and other cost models on measured programs, by held-out workloads."


class CostModelGroup(TyperGroup):
    """Knows the server side's ``costmodels evaluate`` besides its own commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Own commands and ``evaluate``."""
        return [*self.commands, "evaluate"]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command; ``evaluate`` is imported now."""
        if cmd_name == "evaluate":
            return side_command("evaluate", "costmodels.evaluate", EVALUATE)
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=CostModelGroup,
    help="Cost models: list, show, train, evaluate.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command("list")
def list_(
    job: Annotated[str | None, typer.Option(help="Only cost models of this job.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List trained cost models, newest first."""
    with connect(server, key) as client:
        page = client.cost_models(job=job, limit=limit, cursor=cursor)
    lines = [
        (row.id, row.kind, row.state.value, str(row.trained_on), row.precision, row.job_id or "–") for row in page.items
    ]
    head = ("id", "kind", "state", "programs", "precision", "job")
    emit(page.model_dump(mode="json"), table(head, lines), as_json)


@app.command()
def show(
    model: Annotated[str, typer.Argument(metavar="ID", help="Cost model's id.")],
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Show one cost model: what it was trained on and through, and its metrics."""
    with connect(server, key) as client:
        found = client.cost_model(model)
    emit(found.model_dump(mode="json"), rows(_about(found)), as_json)


@app.command()
def train(
    target: Annotated[str, typer.Option(help="Target: hash, device class or tag.")],
    precision: Annotated[str, typer.Option(help="Precision of the records.")] = "float32",
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Train a ranker on every record of a target and a precision, whoever measured them."""
    with connect(server, key) as client:
        made = client.train_cost_model(target, precision=precision)
    text = f"cost model {made.id} is queued: follow it with tunesmith costmodels show {made.id}"
    emit(made.model_dump(mode="json"), text, as_json)


def _about(found: CostModelBody) -> list[tuple[str, str]]:
    """Lineage and metrics."""
    metrics = found.metrics or {}
    out = [("id", found.id), ("kind", found.kind), ("state", found.state.value), ("job", found.job_id or "–")]
    out += [("target", found.target), ("precision", found.precision), ("features", found.features)]
    out += [("programs", str(found.trained_on)), ("through", f"record {found.trained_through}")]
    out += [(name, f"{value}") for name in ("workloads", "strength") if (value := metrics.get(name)) is not None]
    out += [("held out", text) for text in _held_out(metrics.get("held_out") or {})]
    return out + ([("error", str(found.error.get("detail")))] if found.error else [])


def _held_out(metrics: Mapping[str, Any]) -> list[str]:
    """A line for each model that was judged, or one for the job's own."""
    groups = {name: each for name, each in metrics.items() if isinstance(each, Mapping)} or {"": metrics}
    figures = {
        name: ", ".join(f"{metric} {value:.3f}" for metric, value in each.items() if isinstance(value, float))
        for name, each in groups.items()
    }
    return [f"{name}: {text}" if name else text for name, text in figures.items() if text]
