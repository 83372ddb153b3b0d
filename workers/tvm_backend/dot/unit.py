"""The registers of a matrix unit (AMX), for what has to do without TVM."""

from __future__ import annotations

from typing import Final

ACCUMULATORS: Final = 6
"""Tiles for accumulators. The unit has eight; number 6 takes rows and number 7 columns."""
COLUMNS: Final = 16
"""Columns of a tile: 32-bit lanes of one of its rows."""
MIN_ROWS, MAX_ROWS = 4, 16
