"""``tunesmith bench``: one sub-command per benchmark, imported when it is used.

``benchmarks/<name>/command.py`` holds a function ``run``, or a Typer application ``app`` where there are sub-commands;
it imports nothing heavy, because ``--help`` loads it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from tunesmith.cli.examples import with_examples

FOLDER = Path(__file__).parent
BENCHMARKS = {
    "tuners": "Compare tuners: candidates per minute, best latency, where the time goes.",
    "operators": "Compare single operators with the machine's limit, MetaSchedule and other runtimes.",
    "search": "Compare the search alone with MetaSchedule's, in TVM's design space, trial by trial.",
    "models": "Compare a model's latency, untuned and tuned, with other runtimes.",
    "guides": "Measure the first candidates of drawn operators, by who proposes them.",
    "answers": "Compare what is chosen without a measurement with what searches find.",
    "starts": "Compare how soon jobs of models are near their ends, with the shipped models and without them.",
    "pretrained": "Tune operators for a few trials with the shipped models and without them.",
    "chains": "Compare products in bf16 and int8 with their instruction's peak and with other runtimes.",
    "accuracy": "Count what trained networks read, by precision.",
    "seams": "Measure what it costs cores that others write next to them.",
    "peak": "Measure this machine's limits: arithmetic and memory bandwidth.",
    "replay": "Compare searchers, forecasts and cost models on recorded data, without hardware.",
    "allocation": "Compare allocators on recorded learning curves of whole models, without hardware.",
    "fleet": "Check fair shares, busy devices and the time of decisions, on a simulated fleet.",
    "faults": "Check that faults of database and workers cost no result: PostgreSQL, Redis, simulated devices.",
    "pages": "Check that pages of a job with 10,000 tasks answer quickly, on SQLite and PostgreSQL.",
    "records": "Time how records are stored and found among many, on SQLite and PostgreSQL.",
    "dashboard": "Check that the dashboard's pages are there within a second, in a browser, with a million records.",
    "yardstick": "Check that models with nothing to gain show no difference after tuning.",
    "gpu": "Tune float32 and float16 matrix products on this machine's GPU.",
    "measure": "Check measurements: order, intervals, racing and adaptive stop.",
}


class BenchmarkGroup(TyperGroup):
    """A group whose commands are modules."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every benchmark that is here."""
        return [name for name in BENCHMARKS if (FOLDER / name / "command.py").is_file()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One benchmark, imported now; None when there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"benchmarks.{cmd_name}.command")
        holder: typer.Typer | None = getattr(module, "app", None)
        if holder is None:
            holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            holder.command(cmd_name)(module.run)
        command = typer.main.get_command(holder)
        command.name, command.short_help = cmd_name, BENCHMARKS[cmd_name]
        return with_examples(command, f"bench {cmd_name}")


app = typer.Typer(
    name="bench", cls=BenchmarkGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


@app.callback()
def bench() -> None:
    """Benchmarks of this machine: each writes a CSV file, a Markdown table and a plot."""
