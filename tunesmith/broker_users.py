"""Users of Redis: whom it lets do what, as lines of an ACL file or of its configuration.

Redis before version 7 gives a user one list of keys for all its commands. A measure worker takes from its queues and
pushes to another, so it has two users.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tunesmith.errors import InvalidInput
from tunesmith.messages import RECORD, measure_queue

KEY_PREFIX: Final = "tunesmith:"
"""Prefix of the names of all Tunesmith's keys."""
CONTROL: Final = f"{KEY_PREFIX}/0.celery.pidbox"
"""The channel of remote control, where workers listen for revocations. Who listens needs exactly this name."""
READS: Final = "-@all +ping +brpop +psubscribe +punsubscribe"
REPORTS: Final = "-@all +ping +lpush"
SERVES: Final = "+@all -@admin -@dangerous -@scripting"
NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
OFF: Final = "user default off"
"""Whoever gives no name gets nowhere."""


@dataclass(frozen=True)
class BrokerUser:
    """A user of Redis; ``rights`` are Redis's rules, without the password."""

    name: str
    rights: str
    password: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def line(self) -> str:
        """The line of an ACL file; the password is hashed in it."""
        return f"user {self.name} on #{hashlib.sha256(self.password.encode()).hexdigest()} {self.rights}"

    def url(self, address: str) -> str:
        """The broker's URL for this user; ``address``: host:port."""
        return f"redis://{self.name}:{self.password}@{address}/0"


def core(name: str = "core") -> BrokerUser:
    """Coordinators and core workers: all queues, remote control, and nothing for administrators."""
    return BrokerUser(name, f"resetkeys ~{KEY_PREFIX}* resetchannels &{CONTROL} {SERVES}")


def measuring(name: str = "measure", device_classes: Iterable[str] = ()) -> tuple[BrokerUser, BrokerUser]:
    """A measure worker: who takes from the queues of ``device_classes`` (none: of all), and who pushes to `record`.

    Raises:
        InvalidInput: a name that is none in Redis's rules.
    """
    classes = tuple(device_classes)
    for each in (name, *classes):
        if not NAME.fullmatch(each):
            raise InvalidInput(
                f"{each!r} cannot be part of a user of Redis: use letters, digits, '.', '_' and '-'",
                field="name",
                value=each,
            )
    keys = [f"~{KEY_PREFIX}{measure_queue(each)}" for each in classes or ("*",)]
    return (
        BrokerUser(f"{name}-reads", f"resetkeys {' '.join(keys)} resetchannels &{CONTROL} {READS}"),
        BrokerUser(f"{name}-reports", f"resetkeys ~{KEY_PREFIX}{RECORD} resetchannels {REPORTS}"),
    )
