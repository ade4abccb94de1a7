"""What is looked at in the live view as chips, map, chart and cell say it, and hands for its figures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PATIENCE = 60_000
"""Milliseconds."""
SETTLED = 300
"""Milliseconds for which what was found must stay."""
LEFT, TOP = 50, 14
"""Where the cells of a map begin, in px."""

_LOOKED = """
view => {
  const outline = [...view.querySelectorAll(".map .field > svg > g[visibility=visible]")].find(
    (group) => group.querySelector("rect") && !group.querySelector("rect[stroke-dasharray]"),
  );
  const rect = outline?.querySelector("rect");
  const cells = view.querySelector(".map canvas").getBoundingClientRect();
  const behind = view.querySelector(".behind");
  const head = behind.querySelector(".head");
  return {
    chips: [...view.querySelectorAll(".written .chip[aria-pressed=true]")].map((chip) => +chip.dataset.step),
    box: rect ? ["x", "y", "width", "height"].map((name) => Number(rect.getAttribute(name))) : null,
    height: cells.height,
    chart: view.querySelector(".linechart > svg .chosen")?.textContent ?? null,
    cell: head.hidden ? null : behind.querySelector("h3").textContent,
    busy: behind.getAttribute("aria-busy") === "true",
    metric: view.querySelector("[aria-label='The heat map shows']").value,
    variant: Number(view.querySelector("[aria-label='The heat map is of']").value),
  };
}
"""
_SETTLE = """
async (view, still) => {
  const sizes = () => JSON.stringify([...view.querySelectorAll("canvas")].map((c) => [c.width, c.height]));
  for (let [last, since] = [sizes(), performance.now()]; performance.now() - since < still; ) {
    await new Promise(requestAnimationFrame);
    if (sizes() !== last) [last, since] = [sizes(), performance.now()];
  }
}
"""
_PRINT = """
canvas => {
  const { width, height } = canvas;
  const data = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
  let hash = 0;
  for (const pixel of data) hash = (hash * 31 + pixel) | 0;
  return [new Set(data).size, hash];
}
"""


def until(check: Callable[[], Any], page: Page, patience: int = PATIENCE // 3) -> None:
    """Wait until ``check`` passes, and then for a moment more, after which it still must."""
    deadline = time.monotonic() + patience / 1000
    while True:
        try:
            check()
            break
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            page.wait_for_timeout(50)
    page.wait_for_timeout(SETTLED)
    check()


@dataclass
class LiveView:
    """The live view of a page that shows all of a run."""

    page: Page

    @property
    def view(self) -> Locator:
        return self.page.locator(".view")

    @property
    def chips(self) -> Locator:
        return self.page.locator(".written .chip")

    @property
    def map(self) -> Locator:
        return self.page.locator("figure.map")

    @property
    def field(self) -> Locator:
        return self.page.locator("figure.map .field")

    @property
    def lines(self) -> Locator:
        return self.page.locator("figure.lines")

    @property
    def chart(self) -> Locator:
        return self.page.locator("figure.lines .linechart")

    @property
    def behind(self) -> Locator:
        return self.page.locator(".behind")

    def tab(self, name: str) -> Locator:
        return self.lines.get_by_role("tab", name=name, exact=True)

    def settled(self) -> LiveView:
        """Until the figures keep their size: the first drawing measures what stands around them."""
        self.view.evaluate(_SETTLE, SETTLED)
        return self

    def shows(self, metric: str | None = None, variant: int | None = None) -> None:
        """Have the map show another metric or variant."""
        if metric is not None:
            self.page.get_by_label("The heat map shows").select_option(metric)
        if variant is not None:
            self.page.get_by_label("The heat map is of").select_option(str(variant))

    def looked(self) -> dict[str, Any]:
        return self.view.evaluate(_LOOKED)

    def opened(self) -> tuple[int, int, str] | None:
        """Step, layer and variant of the cell that is open, in its title."""
        title = self.looked()["cell"]
        found = title and re.search(r"Layer (\d+), token (\d+) “.*”, ([^:]+)", title)
        return (int(found[2]), int(found[1]), found[3]) if found else None

    def outlined(self) -> tuple[int, int] | None:
        """Step and layer of the cell that is outlined in a map that is not zoomed."""
        found = self.looked()
        if found["box"] is None:
            return None
        # The outline is 1.5 px outside its cell on each side.
        x, y, width, height = found["box"]
        column = (x + 1.5 - LEFT) / (width - 3)
        row = (TOP + found["height"] - y - 1.5) / (height - 3) - 1
        assert abs(column - round(column)) < 0.1
        assert abs(row - round(row)) < 0.1
        return round(column), round(row)

    def agrees(self, step: int | None, layer: int | None = None, variant: str = "direct float32") -> None:
        """Chips, outline, chart and cell show this, and agree on the layer where none is given."""
        found = self.looked()
        assert not found["busy"]
        cell = self.opened()
        assert cell is not None
        assert found["chips"] == ([] if step is None else [step])
        assert found["chart"] == (None if step is None else str(step))
        assert cell[2] == variant
        assert layer is None or cell[1] == layer
        assert step is None or cell[0] == step
        assert self.outlined() == cell[:2]

    def at(self, step: float, layer: float, steps: int, layers: int) -> tuple[float, float]:
        """Where a cell is on the page: its middle, or so much beside it."""
        box = self.map.locator("canvas").bounding_box()
        assert box is not None
        across, up = (step + 0.5) / steps, (layers - layer - 0.5) / layers
        return box["x"] + across * box["width"], box["y"] + up * box["height"]

    def click_cell(self, step: int, layer: int, steps: int, layers: int) -> None:
        self.field.scroll_into_view_if_needed()
        self.page.mouse.click(*self.at(step, layer, steps, layers))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(*end, steps=6)
        self.page.mouse.up()

    def selected_text(self) -> str:
        return self.page.evaluate("getSelection().toString()")

    def description(self) -> str:
        return self.field.locator("svg").first.get_attribute("aria-label") or ""

    def chart_description(self) -> str:
        return self.chart.locator("canvas").get_attribute("aria-label") or ""

    def legend(self) -> list[str]:
        keys = self.lines.locator(".chart-key")
        return keys.evaluate_all("keys => keys.map((key) => key.dataset.label)")

    def painted(self, place: Locator) -> tuple[int, int]:
        """How many colours a canvas holds, and a number for all its pixels."""
        colours, total = place.locator("canvas").evaluate(_PRINT)
        return colours, total

    def save(self, what: str, kind: str) -> tuple[str, bytes]:
        """A file from one of the menus: its name and contents."""
        menu = self.page.locator("details.files").filter(
            has=self.page.get_by_label(f"Download {what} as {kind}")
        )
        if menu.get_attribute("open") is None:
            menu.locator("summary").click()
        with self.page.expect_download(timeout=PATIENCE) as download:
            self.page.get_by_role("button", name=f"Download {what} as {kind}", exact=True).click()
        return download.value.suggested_filename, Path(download.value.path()).read_bytes()
