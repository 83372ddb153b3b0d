"""``tunesmith models``: upload, list, show, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tunesmith.cli.checks import check_content, check_model, parse_inputs
from tunesmith.cli.options import Cursor, Inputs, Json, Key, Limit, Server, connect
from tunesmith.cli.output import emit, rows, table
from tunesmith.cli.progress import shown
from tunesmith.client import Model

app = typer.Typer(help="Models: upload, list, show, delete.", no_args_is_help=True, add_completion=False)
ModelId = Annotated[str, typer.Argument(metavar="MODEL", help="Id of a model.")]


@app.command("list")
def list_(
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List models, newest first."""
    with connect(server, key) as client:
        page = client.models(limit=limit, cursor=cursor)
    lines = [(model.id, model.state.value, model.name, model.source, str(model.tasks)) for model in page.items]
    emit(page.model_dump(mode="json"), table(("id", "state", "name", "source", "tasks"), lines, give="name"), as_json)


@app.command()
def upload(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="An .onnx or .pt2 file, or TVM JSON (.json).")],
    inputs: Inputs = None,
    name: Annotated[str | None, typer.Option(help="Name of the model (default: the file's).")] = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Upload a model and wait until it is imported; the same file gives the same model."""
    shapes = parse_inputs(inputs or [])
    check_model(str(path))
    check_content(str(path))
    with connect(server, key) as client, shown("importing", as_json):
        model = client.wait_model(client.upload_model(path, name, shapes).id)
    emit(model.model_dump(mode="json"), rows([*_lines(model), ("tasks", str(model.tasks))]), as_json)


@app.command()
def show(model: ModelId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Show one model, and the tasks that it was split into."""
    with connect(server, key) as client:
        found, tasks = client.model(model), client.model_tasks(model)
    lines = [(task.name, str(task.weight), task.workload) for task in tasks]
    body = {**found.model_dump(mode="json"), "task_list": [task.model_dump(mode="json") for task in tasks]}
    if not as_json:
        emit(None, "\n".join(f"{name:12}{value}" for name, value in _lines(found)), as_json)
    emit(body, table(("task", "weight", "workload"), lines), as_json)


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
    if model.note:
        lines.append(("note", model.note))
    return lines
