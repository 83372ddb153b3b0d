"""The command line's frame: commands, errors, exit statuses (0 ok, 1 failed, 2 usage)."""

from __future__ import annotations

import contextlib
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import Abort, TyperException

from tunesmith import __version__
from tunesmith.cli.options import Json
from tunesmith.cli.output import emit, print_problem
from tunesmith.cli.plugins import CommandGroup
from tunesmith.errors import DiskFull, InvalidUsage, TunesmithError, Unauthorized
from tunesmith.full_disk import is_full
from tunesmith.terminal import print_anything

INTERRUPTED = 130
KEY = "; the command line takes a key with --key, or from TUNESMITH_KEY"


def build() -> typer.Typer:
    """The application; commands are looked up when they are used."""
    app = typer.Typer(
        name="tunesmith",
        cls=CommandGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    app.command("version")(version)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__, flush=True)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find the fastest schedules of a model on your own hardware. Every command takes --json."""


def version(as_json: Json = False) -> None:
    """Print the version."""
    emit({"version": __version__}, __version__, as_json)


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit status."""
    as_json = "--json" in arguments
    try:
        result: Any = typer.main.get_command(build()).main(
            args=list(arguments), prog_name="tunesmith", standalone_mode=False
        )
        return result if isinstance(result, int) else 0
    except TyperException as error:
        return _usage(error, as_json)
    except Unauthorized as error:
        error.detail += KEY
        print_problem(error, as_json)
        return error.exit_code
    except TunesmithError as error:
        print_problem(error, as_json)
        return error.exit_code
    except (Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:  # the last place that can say what went wrong
        if is_full(error):
            return _full()
        traceback.print_exc()
        if as_json:
            print_problem(TunesmithError(f"{type(error).__name__}: {error}"), as_json)
        return 1


def _full() -> int:
    """Nothing more can be printed where standard output is a file on that disk."""
    problem = DiskFull("the disk is full: make room, then run the command again")
    print_problem(problem, as_json=False)
    with contextlib.suppress(OSError):
        sys.stdout.close()
    return problem.exit_code


def _usage(error: TyperException, as_json: bool) -> int:
    usage = InvalidUsage(f"{error.format_message()} (see --help)")
    if type(error).__name__ == "NoArgsIsHelpError" and not as_json:
        print(error.format_message(), file=sys.stderr)
    else:
        print_problem(usage, as_json)
    return usage.exit_code


def _terminated(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> NoReturn:
    """Entry point."""
    print_anything()
    signal.signal(signal.SIGTERM, _terminated)  # `timeout` and service managers stop us as orderly as Ctrl-C does
    sys.exit(run_command_line(sys.argv[1:]))
