"""Commands, loaded when they are used; those of the server side are registered as entry points."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tunesmith.cli.examples import with_examples
from tunesmith.errors import MissingDependency
from tunesmith.extras import lacking

GROUP = "tunesmith.commands"
OWN_COMMANDS = {
    "tune": "tunesmith.cli.tune:tune",
    "jobs": "tunesmith.cli.jobs:app",
    "trials": "tunesmith.cli.trials:app",
    "propose": "tunesmith.cli.propose:propose",
    "best": "tunesmith.cli.best:best",
    "mcp": "tunesmith.cli.agents:mcp",
    "models": "tunesmith.cli.models:app",
    "quantize": "tunesmith.cli.quantize:quantize",
    "keys": "tunesmith.cli.keys:app",
    "device": "tunesmith.cli.devices:app",
    "workloads": "tunesmith.cli.workloads:app",
    "costmodels": "tunesmith.cli.costmodels:app",
    "records": "tunesmith.cli.records:app",
    "dataset": "tunesmith.cli.dataset:app",
}
"""Commands of the light install. Importing all of them takes longer than starting a worker needs besides."""
EXTRAS = {
    "up": "server,worker",
    "status": "server",
    "down": "server",
    "bench": "server,worker,bench",
    "prune": "server",
    "backup": "server",
    "restore": "server",
}
SERVER_COMMANDS = {
    "up": "Run the whole service on this machine.",
    "status": "Show whether and where a stack runs on a data folder.",
    "down": "Stop the stack on a data folder.",
    "worker": "Run a worker of the service.",
    "compile": "Compile a model with its tuned schedules.",
    "compare": "Compare a model's latency between runtimes.",
    "verify": "Measure a log's champions again.",
    "bundle": "Put all that a result needs into an archive.",
    "rerun": "Make a bundle's result again.",
    "doctor": "Check the installation.",
    "bench": "Run the benchmarks.",
    "prune": "Remove old jobs, events and unused blobs.",
    "backup": "Back up database and blobs to one file.",
    "restore": "Restore a backup into an empty place.",
}


MODULES = {
    **dict.fromkeys(("prune", "backup", "restore"), "services.embedded.commands_data"),
    **dict.fromkeys(("status", "down"), "services.embedded.commands_stack"),
    "verify": "workers.commands_verify",
    **dict.fromkeys(("bundle", "rerun"), "workers.commands_bundle"),
    "costmodels.evaluate": "workers.commands_costmodels",
}
"""Commands that are found by their modules, as whole groups of them need no registration each."""


ALWAYS = frozenset({"doctor"})
"""Says itself what is missing."""


def server_command(name: str) -> Any:
    """The callable or Typer application behind an entry point, or a function of a module.

    Raises:
        MissingDependency: when the server side is not installed, or not what the command needs of it.
    """
    missing = [] if name in ALWAYS else [extra for extra in lacking(_extras(name)) if extra != "bench"]
    if missing:
        raise _missing(name, f"without the extra '{','.join(missing)}'")
    if name in MODULES:
        try:
            return getattr(importlib.import_module(MODULES[name]), name.rpartition(".")[2])
        except ModuleNotFoundError as error:
            raise _missing(name, str(error)) from error
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise _missing(name, "it is not registered")
    return _load(found[0])


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ModuleNotFoundError as error:
        raise _missing(point.name, str(error)) from error


def _extras(name: str) -> list[str]:
    return EXTRAS.get(name, "worker").split(",")


def _missing(name: str, reason: str) -> MissingDependency:
    extra = EXTRAS.get(name, "worker")
    return MissingDependency(
        f"'tunesmith {name.replace('.', ' ')}' belongs to the server side, which is not installed here ({reason}): "
        f"clone the repository and run 'make venv', or there 'pip install -e .[{extra}]'",
        extra=extra,
    )


def side_command(name: str, point: str, help_text: str) -> Any:
    """A command that a group can hold; one that says what is missing where the server side is not installed."""
    try:
        command = _command(name, server_command(point))
    except MissingDependency as error:
        settings = {"ignore_unknown_options": True, "allow_extra_args": True}
        command = _command(name, _absent(error), help=help_text, context_settings=settings)
    missing = lacking(_extras(point))
    if missing:
        command.short_help = f"{help_text} (not installed: extra {', '.join(missing)})"
    return with_examples(command, point.replace(".", " "))


def _command(name: str, loaded: Any, **options: Any) -> Any:
    if isinstance(loaded, typer.Typer):
        return typer.main.get_command(loaded)
    holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    holder.command(name, **options)(loaded)
    return typer.main.get_command(holder)


def _absent(error: MissingDependency) -> Any:
    """A command that takes anything and says what is missing."""

    def command(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        raise error

    return command


class CommandGroup(TyperGroup):
    """A group that knows the commands by name and imports the one that is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command, the server side's too."""
        return [*OWN_COMMANDS, *self.commands, *SERVER_COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command; its module is imported now."""
        if cmd_name in SERVER_COMMANDS:
            return side_command(cmd_name, cmd_name, SERVER_COMMANDS[cmd_name])
        if cmd_name in OWN_COMMANDS:
            module, _, attribute = OWN_COMMANDS[cmd_name].partition(":")
            found = _command(cmd_name, getattr(importlib.import_module(module), attribute))
        else:
            found = super().get_command(ctx, cmd_name)
        return None if found is None else with_examples(found, cmd_name)
