"""Write the pages of ``docs/reference/`` that the code itself is the source of: ``python -m tools.reference``.

With ``--check`` nothing is written and the exit status says whether the pages are up to date. The page of Python needs
TVM and PyTorch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from tools.openapi_changes import DECISIONS, unnamed
from tools.reference_rest import openapi_json, routes
from tunesmith.event_kinds import FORMER_NAMES, EventKind
from tunesmith.events import EventData, member

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
MARK = "<!-- Written by `python -m tools.reference` from the code. -->\n"


def table(head: list[str], rows: Iterator[list[str]] | list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def settings() -> str:
    """``settings.md``: every environment variable of every ``Settings`` class."""
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    import settings_classes

    parts = [
        "# Settings\n",
        MARK,
        "Each process reads its settings once, at its start, from environment variables. "
        "`tunesmith up` sets those that its children need.\n",
    ]
    known = {name for part in settings_classes.PARTS for name in settings_classes.variables(part)}
    for part in settings_classes.PARTS:
        for cls in settings_classes.classes(part):
            if cls.__subclasses__():  # what they share is listed with each of them
                continue
            prefix = str(cls.model_config.get("env_prefix", ""))
            rows = [
                [f"`{(prefix + name).upper()}`", _default(field), field.description or ""]
                for name, field in cls.model_fields.items()
            ]
            first = (cls.__doc__ or "").strip().splitlines()[0]
            parts += [f"## `{cls.__module__}`\n", f"{first}\n", table(["variable", "default", "meaning"], rows)]
    options = {
        (name, p.help or "") for _, command in _commands(_root(), "") for p in command.params for name in _variables(p)
    }
    parts += [
        "## Command line\n",
        "Read by `tunesmith` in place of an option.\n",
        table(["variable", "meaning"], [[f"`{name}`", text] for name, text in sorted(options) if name not in known]),
        "## Development\n",
        table(["variable", "meaning"], [["`TUNESMITH_CHROMIUM`", "Browser for the tests and the screenshot."]]),
    ]
    return "\n".join(parts)


def _variables(parameter: Any) -> list[str]:
    given = getattr(parameter, "envvar", None) or []
    return [given] if isinstance(given, str) else list(given)


def _root() -> Any:
    import typer

    from tunesmith.cli.main import build

    return typer.main.get_command(build())


def _default(field: Any) -> str:
    from pydantic import SecretStr

    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "computed"
    value = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    if isinstance(value, tuple):
        value = ",".join(value)
    return "–" if value in (None, "", ()) else f"`{value}`"


def errors() -> str:
    """``errors.md``: every code of a problem object."""
    import services.coordinator.app  # noqa: F401  registers the errors of the coordinator
    from services.coordinator.problems import HTTP_CODES
    from tunesmith.errors import catalogue

    known = catalogue()
    rows = [
        [f"`{code}`", str(cls.status), str(cls.exit_code), (cls.__doc__ or "").strip().splitlines()[0]]
        for code, cls in sorted(known.items())
    ]
    plain = [[f"`{code}`", str(status)] for status, code in HTTP_CODES.items() if code not in known]
    return "\n".join(
        [
            "# Errors\n",
            MARK,
            "Every error is an RFC 9457 problem object (`application/problem+json`); `tunesmith … --json` prints the "
            "same object. `code` is stable, `detail` is for people, `errors` names the offending field and its value, "
            "and `request_id` finds the request in the log.\n",
            table(["code", "HTTP status", "exit status", "meaning"], rows),
            "Codes of errors that the web framework raises:\n",
            table(["code", "HTTP status"], plain),
        ]
    )


def states() -> str:
    """``states.md``: the state machines."""
    from tunesmith.states import mermaid

    names = {
        "JobState": "Jobs",
        "ModelState": "Models",
        "RoundState": "Rounds",
        "WorkState": "Batches, evaluations and trainings",
    }
    parts = [
        "# States\n",
        MARK,
        "The only transitions that are legal. A transition is a compare-and-set together with its event, in one "
        "transaction; a state without an arrow out of it is final.\n",
    ]
    for block in mermaid().split("\n\n"):
        head, _, body = block.partition("\n")
        parts += [f"## {names[head.removeprefix('%% ')]}\n", f"```mermaid\n{body}\n```\n"]
    return "\n".join(parts)


def rest() -> str:
    """``rest.md``: every route."""
    return "\n".join(
        [
            "# REST API\n",
            MARK,
            "JSON throughout, times in ISO 8601 (UTC), durations and latencies in seconds. Lists are paged: "
            "`{items, next_cursor}`, with `limit` up to 200; pass `next_cursor` on as `cursor`. Errors are "
            "[problem objects](errors.md). A body may have 1 MiB, a model's upload `TUNESMITH_MAX_UPLOAD_BYTES`. With "
            "`TUNESMITH_ADMIN_KEY` set, every route under `/v1` wants "
            "`Authorization: Bearer KEY`. Schemas of bodies and answers are in [the OpenAPI document](openapi.json), "
            "which a running coordinator serves at `/openapi.json` and shows at `/docs`. "
            "A change that breaks clients is named in "
            "[a decision](../decisions/0044-the-openapi-document-is-a-promise.md).\n",
            *routes(table),
        ]
    )


def cli() -> str:
    """``cli.md``: every command with its examples and options."""
    from tunesmith.cli.examples import EXAMPLES

    root = _root()
    parts = [
        "# Command line\n",
        MARK,
        "Exit status: 0 ok, 1 failed, 2 usage, 130 interrupted (Ctrl-C, SIGTERM). `--json` prints "
        "machine-readable output, errors too: the "
        "[problem object](errors.md). `tunesmith --version` prints the version, and "
        "`tunesmith --install-completion` has the shell complete commands, options and choices.\n",
    ]
    for path, command in _commands(root, "tunesmith"):
        arguments = [p for p in command.params if p.param_type_name == "argument" and not getattr(p, "hidden", False)]
        options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
        options = [p for p in options if "--help" not in p.opts]
        usage = " ".join([path, *(str(p.name).upper() for p in arguments), *(["[OPTIONS]"] if options else [])])
        text = " ".join((command.help or "").split("\f")[0].split("\n\n")[0].split())
        parts += [f"## `{path}`\n", f"`{usage}`\n", f"{text}\n"]
        if examples := EXAMPLES.get(path.removeprefix("tunesmith ")):
            parts.append("\n".join(("```sh", *examples, "```\n")))
        if options:
            parts.append(table(["option", "default", "meaning"], [_option(p) for p in options]))
    return "\n".join(parts)


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    if path and command.invoke_without_command:  # a group that does something by itself
        yield path, command
    for name in command.list_commands(None):
        yield from _commands(command.get_command(None, name), f"{path} {name}")


def _option(option: Any) -> list[str]:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    default = getattr(option.default, "value", option.default)
    shown = "–" if default is None or default is False or default == () or callable(default) else f"`{default}`"
    return [names, "required" if option.required else shown, option.help or ""]


def access() -> str:
    """``access.md``: which scope opens which route, and what strangers see."""
    from services.coordinator.access import RULES, SCOPES

    rows = []
    for (method, path), rule in RULES.items():
        marks = ["yes" if rule.scopes is None or scope in rule.scopes else "403" for scope in SCOPES]
        without = "yes" if rule.scopes is None else "401"
        rows.append([f"`{method} {path}`", without, *marks, rule.visibility.value, rule.note])
    return "\n".join(
        [
            "# Access\n",
            MARK,
            "With `TUNESMITH_ADMIN_KEY` set, a key opens a route when it has one of the scopes with a *yes*. No key, "
            "an unknown one and a revoked one get 401, another scope 403. Without an admin key the one local user may "
            "do everything.\n",
            "*Stranger* is what a permitted key gets for what another user owns: `404` as for what does not exist, "
            "`own rows only` in a list, `the same` for what users share. Operators see everything. A test calls every "
            "route with every scope, as owner and as stranger, and compares the answers with this table. The "
            "dashboard's pages act with the key that their visitor logged in with.\n",
            table(["route", "no key", *(f"`{scope}`" for scope in SCOPES), "stranger", ""], rows),
        ]
    )


def metrics() -> str:
    """``metrics.md``: what ``/metrics`` tells Prometheus."""
    from services.coordinator.metrics import Metrics

    known = Metrics()
    known.watch(dict)
    rows = [
        [f"`{family.name}{'_total' if family.type == 'counter' else ''}`", family.type, family.documentation]
        for family in known.registry.collect()
    ]
    return "\n".join(
        [
            "# Metrics\n",
            MARK,
            "`GET /metrics` answers in the Prometheus text format. Where keys are asked for, it needs one with the "
            "scope `monitor` or `operator`.\n",
            table(["metric", "type", "meaning"], rows),
        ]
    )


def _when(said: type[EventData]) -> str:
    return " ".join((said.__doc__ or "").split())


def _members(said: type[EventData]) -> str:
    return ", ".join(f"`{member(each)}`" for each in fields(said) if not each.metadata.get("merged"))


def events() -> str:
    """``events.md``: every kind of event."""
    from tunesmith.states import NOUNS

    own = [said for said in EventData.__subclasses__() if "kind" in vars(said)]
    rows = [[f"`{said.kind.value}`", _when(said), _members(said)] for said in own]
    changes = {kind.value for kind in EventKind} - {said.kind.value for said in own}
    finished = (
        "`id`, `from`, `to`, `number`, `task`, `name`, `measured`, `failed`, `best_before`, `best_after`, `trials`"
    )
    rows.append([f"`{EventKind.ROUND_FINISHED.value}`", "A round is over.", finished])
    systematic = [
        [f"`{noun}_<state>`", ", ".join(f"`{name}`" for s in kind if (name := f"{noun}_{s.value}") in changes)]
        for noun, kind in NOUNS.items()
    ]
    former = ", ".join(f"`{new}` was called `{old}`" for new, old in FORMER_NAMES.items())
    retried = ", ".join(f"`{noun}_retried`" for noun in NOUNS)
    return "\n".join(
        [
            "# Events\n",
            MARK,
            "`GET /v1/jobs/{id}/events`: a JSON page of `{id, job_id, kind, formerly, data, created_at}`, oldest "
            "first, after the id in `after`; or, with `Accept: text/event-stream`, the same as server-sent events, "
            "resumed after `Last-Event-ID`. Ids only grow.\n",
            table(["kind", "when", "data"], sorted(rows)),
            "A change of state is the event `<noun>_<state>` with `id`, `from` and `to` (see [states](states.md)), and "
            "more where it is known, such as `problem` or `stop_reason`:\n",
            table(["kind", "kinds"], systematic),
            f"Work that is handed out again: {retried}, with `attempt` and `reason`.\n",
            f"Until version 0.1 {former}. `formerly` shows that name for one minor version, and is null for all other "
            "kinds.\n",
        ]
    )


def cpu_model() -> str:
    """``cpu-model.md``: what is assumed of a CPU."""
    from tunesmith.analysis.cpu_model import CpuModel

    rows = [
        [f"`{each.name}`", _figures(each.default), *(each.metadata[about] for about in ("unit", "source", "meaning"))]
        for each in fields(CpuModel)
    ]
    return "\n".join(
        [
            "# CPU model\n",
            MARK,
            "What the [static model](../explanation/static-model.md), the design-space rules and the passes assume of "
            "a CPU. The defaults describe two cores of a Zen 5, for which models are prepared. *Zen 5* and *Xeon* are "
            "the processors of the [main benchmarks](../benchmarks.md) and of "
            "[those on a Xeon](../other-machines/xeon.md).\n",
            table(["field", "default", "unit", "source", "meaning"], rows),
        ]
    )


def _figures(default: Any) -> str:
    from tunesmith.analysis.cpu_model import Cache

    if isinstance(default, Cache):
        return f"{default.size} at {default.bandwidth:.3g}"
    return ", ".join(map(_figures, default)) if isinstance(default, tuple) else f"{default:.6g}"


def python() -> str:
    """``python.md``: what ``import tunesmith`` has."""
    from tools.reference_python import python_page

    return python_page(MARK, table)


def client() -> str:
    """``client.md``: the client of the REST API."""
    from tools.reference_python import client_page

    return client_page(MARK, table)


PAGES = {
    "openapi.json": openapi_json,
    "settings.md": settings,
    "errors.md": errors,
    "states.md": states,
    "rest.md": rest,
    "cli.md": cli,
    "metrics.md": metrics,
    "events.md": events,
    "access.md": access,
    "cpu-model.md": cpu_model,
    "python.md": python,
    "client.md": client,
}


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    options = parser.parse_args()
    stale = []
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        path, text = FOLDER / name, make()
        old = path.read_text("utf-8") if path.exists() else None
        if old == text:
            continue
        broken = unnamed(json.loads(old), json.loads(text), DECISIONS) if old and name == "openapi.json" else []
        if broken:
            print("these changes break clients of the REST API; name each in a record in docs/decisions, in backticks:")
            print("\n".join(f"  {change}" for change in broken))
            return 1
        stale.append(name)
        if not options.check:
            path.write_text(text, "utf-8")
    print(f"{'out of date' if options.check else 'written'}: {', '.join(stale) or 'nothing'}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
