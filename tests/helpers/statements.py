"""SQL that is compiled once for all databases of a kind, though nearly every test has engines of its own.

SQLAlchemy keeps compiled statements by engine, and compiling them was a fifth of what the coordinator's tests took.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Dialect, Engine, event

Kept = tuple[Dialect, dict[Any, Any]]


def share_statements() -> None:
    """Have connections use the dialect, and the statements, of the first engine of their kind.

    A dialect has learned what its database can by the time that a connection stands. All databases of a kind in a test
    run are of one version.
    """
    kept: dict[type[Dialect], Kept] = {}

    def share(connection: Connection) -> None:
        engine = connection.engine
        dialect, statements = kept.setdefault(type(engine.dialect), (engine.dialect, {}))
        if engine.dialect is not dialect:
            engine.dialect = dialect
            engine.update_execution_options(compiled_cache=statements)
        connection.dialect = dialect
        connection.execution_options(compiled_cache=statements)

    event.listen(Engine, "engine_connect", share)
