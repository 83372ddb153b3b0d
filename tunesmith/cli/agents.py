"""``tunesmith mcp``: tools for agents."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tunesmith.cli.options import Key, Server
from tunesmith.errors import MissingDependency
from tunesmith.extras import here
from tunesmith.names import DEFAULT_URL
from tunesmith.proposals import MAX_AUTHOR


def mcp(
    author: Annotated[str, typer.Option(help="A name for the agent, which its proposals carry.")] = "",
    server: Server = None,
    key: Key = None,
) -> None:
    """Serve tools for agents on standard input and output (Model Context Protocol).

    They list jobs and tasks, read design spaces and results, and propose candidates.
    """
    if not here("mcp"):
        raise MissingDependency(
            "tools for agents need the library mcp, which is not installed here: install the extra 'mcp', for example "
            "with pip install -e '.[mcp]'",
            extra="mcp",
        )
    from tunesmith.agent_tools import serve

    asyncio.run(serve(server or DEFAULT_URL, key, author[:MAX_AUTHOR]))
