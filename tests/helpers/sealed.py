"""A signed report as a message that a publisher sends."""

from __future__ import annotations

from typing import Any

from tunesmith.messages import Message
from tunesmith.signing import Signer


class Sealed:
    """In the place of the report, for ``Publisher.send``."""

    def __init__(self, signer: Signer, report: Message) -> None:
        self.task, self._signed = report.task, signer.sign(report)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """What travels."""
        return self._signed.model_dump(**options)
