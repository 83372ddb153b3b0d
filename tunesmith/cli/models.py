"""``tunesmith models``: list, show, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from tunesmith.cli.options import Json, Key, Server, connect
from tunesmith.cli.output import emit, table
from tunesmith.client import Model

app = typer.Typer(help="Models: list, show, delete.", no_args_is_help=True)
ModelId = Annotated[str, typer.Argument(metavar="MODEL", help="Id of a model.")]


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50, as_json: Json = False, server: Server = None,
    key: Key = None,
) -> None:  # fmt: skip
    """List models, newest first."""
    with connect(server, key) as client:
        page = client.models(limit=limit)
    rows = [(model.id, model.state.value, model.name, model.source, str(model.tasks)) for model in page.items]
    emit(page.model_dump(mode="json"), table(("id", "state", "name", "source", "tasks"), rows), as_json)


@app.command()
def show(model: ModelId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Show one model, and the tasks that it was split into."""
    with connect(server, key) as client:
        found, tasks = client.model(model), client.model_tasks(model)
    rows = [(task.name, str(task.weight), task.workload) for task in tasks]
    body = {**found.model_dump(mode="json"), "task_list": [task.model_dump(mode="json") for task in tasks]}
    if not as_json:
        emit(None, "\n".join(f"{name:12}{value}" for name, value in _lines(found)), as_json)
    emit(body, table(("task", "weight", "workload"), rows), as_json)


@app.command()
def delete(model: ModelId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Delete a model that no job uses."""
    with connect(server, key) as client:
        client.delete_model(model)
    emit({"id": model, "deleted": True}, f"deleted {model}", as_json)


def _lines(model: Model) -> list[tuple[str, str]]:
    lines = [("model", model.id), ("name", model.name), ("source", model.source), ("state", model.state.value)]
    if model.error:
        lines.append(("error", f"[{model.error.get('code')}] {model.error.get('detail')}"))
    return lines
