"""One line of progress that fits the terminal: a phase, a bar that takes the room that is left, and what is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.style import Style

PHASE_WIDTH = 9
LEAST_BAR = 8
GAP = "  "
BOLD = Style(bold=True)


class Piece(NamedTuple):
    """A text that is shown whole or not at all.

    Attributes:
        text: the words.
        rank: where room is short the highest rank goes first; rank 0 stays.
        gap: what separates it from the piece before it.
    """

    text: str
    rank: int = 0
    gap: str = GAP


def fitting(pieces: Sequence[Piece], room: int) -> list[Piece]:
    """The pieces that have ``room`` columns, in their order."""
    kept = [piece for piece in pieces if piece.text]
    while _width(kept) > room and any(piece.rank for piece in kept):
        kept.remove(max(kept, key=lambda piece: piece.rank))
    return kept


def _width(pieces: Iterable[Piece]) -> int:
    return sum(len(piece.gap) + len(piece.text) for piece in pieces)


class Line:
    """What to draw; as wide as the console, less the last column, at which some terminals wrap.

    Args:
        phase: one word.
        pieces: what stands right of the bar.
        done: share of the work, 0 to 1; None draws a bar that moves.
    """

    def __init__(self, phase: str, pieces: Sequence[Piece] = (), done: float | None = None) -> None:
        self.phase, self.pieces, self.done = phase, pieces, done

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = f"{self.phase:{PHASE_WIDTH}}{GAP}"
        room = options.max_width - 1 - len(head)
        pieces = fitting(self.pieces, room - LEAST_BAR)
        bar = max(LEAST_BAR, room - _width(pieces))
        yield Segment(head, BOLD)
        yield from self._bar(console, options.update(width=bar, max_width=bar), bar)
        yield Segment("".join(piece.gap + piece.text for piece in pieces))

    def _bar(self, console: Console, options: ConsoleOptions, width: int) -> Iterable[Segment]:
        bar = ProgressBar(total=None if self.done is None else 1.0, completed=self.done or 0.0, width=width)
        drawn = list(console.render(bar, options))
        yield from drawn
        # Without colours rich leaves out what is still to do.
        yield Segment(("." if options.ascii_only else "·") * (width - sum(part.cell_length for part in drawn)))
