"""The registry of walls."""

from __future__ import annotations

from collections.abc import Mapping

from workers.sandbox.box.base import Wall
from workers.sandbox.box.landlock import Landlock
from workers.sandbox.box.namespaces import Namespaces

WALLS: Mapping[str, type[Wall]] = {"namespaces": Namespaces, "landlock": Landlock}
"""In the order in which a process enters them."""
