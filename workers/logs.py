"""One JSON object a line on standard error, for this code and for the libraries that use ``logging``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Final

import structlog

SHARED: Final[Sequence[structlog.typing.Processor]] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
)
"""What each line is given, whoever wrote it."""


def configure(level: str = "info") -> None:
    """Set up structlog and ``logging``; safe to call again."""
    structlog.configure(
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs URLs, and a signed one opens a blob without a key
