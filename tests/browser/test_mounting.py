"""A component that is called out of order shows what was said last, and is there as long as its place."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext

from ctxviz.ui.routes import asset_url

pytestmark = pytest.mark.browser

PLAY = """
async ([address, order]) => {
  const { mounting } = await import(address);
  const said = [];
  const mount = mounting(() => ({ update: ({ data }) => said.push(data), end: () => said.push("end") }));
  const root = document.createElement("div");
  document.body.append(root);
  const ends = {};
  for (const step of order) {
    if (step === "gone") root.remove();
    else if (step === "later") await new Promise((done) => setTimeout(done, 5));
    else if (step === "much later") await new Promise((done) => setTimeout(done, 5500));
    else if (step.startsWith("end ")) ends[step.slice(4)]();
    else ends[step] = mount({ parentElement: root, data: step });
  }
  return said;
}
"""


@pytest.mark.parametrize(
    ("order", "said"),
    [
        # Two calls in order; when the place goes only the last is taken back.
        (["a", "b", "later", "gone", "end b"], ["a", "b", "end"]),
        # The earlier call comes late and is taken back at once.
        (["b", "a", "end a", "later"], ["b", "a", "b"]),
        (["b", "a", "end a", "later", "gone", "end b"], ["b", "a", "b", "end"]),
        # The earlier call comes first and is taken back when the later one was heard.
        (["a", "b", "end a", "later"], ["a", "b"]),
        # The first call is replaced while it waits: nothing is torn down for the next.
        (["a", "end a", "later", "b"], ["a", "b"]),
        # Nobody says when the place goes whose only call was taken back.
        (["a", "end a", "gone", "much later"], ["a", "end"]),
        (["a", "end a", "later", "b", "much later", "gone", "end b"], ["a", "b", "end"]),
        (["a", "end a", "much later"], ["a"]),
        # A place that is left at once.
        (["a", "gone", "end a"], ["a", "end"]),
    ],
)
def test_what_was_said_last_holds(
    chrome: BrowserContext, harness: str, order: list[str], said: list[str]
) -> None:
    page = chrome.new_page()
    page.goto(harness)
    assert page.evaluate(PLAY, [asset_url("mounting.js"), order]) == said
    page.close()
