"""The element of every chart: ECharts of the toolkit, which a page loads after itself."""

from __future__ import annotations

from typing import Any

from nicegui.element import Element


class Chart(Element, component="chart.js", default_classes="nicegui-echart"):
    """A chart; nothing is drawn before :meth:`draw`.

    Args:
        label: what it is called by those who cannot see it.
        height: in pixels.
    """

    def __init__(self, label: str, height: int) -> None:
        super().__init__()
        self._drawn: dict[str, Any] | None = None
        self._update_method = "update_chart"
        self.classes("w-full").style(f"height:{height}px; min-width:0").props(f"role=img aria-label='{label}'")

    def draw(self, options: dict[str, Any]) -> None:
        """Show it, unless that is what is shown."""
        if options != self._drawn:
            self._drawn = self._props["options"] = options
            self.update()
