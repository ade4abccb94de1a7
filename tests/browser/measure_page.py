"""What the page costs a run, measured in a real Chromium. Not a test: python -m tests.browser.measure_page

The same prompt and settings are run without a page (in a process of its own) and in the page, in turns.
Prints median seconds per token of each and the ratio, the time from a click to the coordinates behind it, and
from the first paint to the recorded run's tokens.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import BrowserContext, sync_playwright

from tests.browser.conftest import CHROMIUM_FLAGS, READY, start_server

PROMPT = "The weather robot on Mars was in a foul mood again. Its forecast for tomorrow was one sentence:"
TOKENS = 40
ROUNDS = 2
CHIP = "button.chip"


def without_page() -> float:
    """Median seconds per token of the command line."""
    command = [sys.executable, "-m", "ctxviz", "run", "--model", "gemma-3-270m", "--prompt", PROMPT]
    command += ["--max-new-tokens", str(TOKENS), "--update", "stable", "--json", "--no-progress"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return statistics.median(json.loads(line)["seconds"] for line in lines)


def with_page(context: BrowserContext, address: str) -> tuple[float, float]:
    """Median seconds of the patched pass in the page, and seconds from a click to the coordinates."""
    query = urlencode({"model": "gemma-3-270m", "prompt": PROMPT, "update": "stable", "tokens": TOKENS})
    page = context.new_page()
    page.goto(f"{address}/?{query}")
    page.wait_for_selector(READY)
    # Something on the page is animated only while it is watched.
    page.get_by_role("button", name="Generate", exact=True).click()
    page.get_by_text(f"Finished · {TOKENS} tokens").first.wait_for(timeout=600_000)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    seconds = _median_seconds(Path(download.value.path()))
    started = time.perf_counter()
    page.locator(CHIP).nth(5).click()
    page.locator(".behind:not([aria-busy]) h3", has_text="token 5 ").wait_for()
    clicked = time.perf_counter() - started
    page.close()
    return seconds, clicked


def _median_seconds(bundle: Path) -> float:
    from ctxviz.store import load_run

    return statistics.median(load_run(bundle).series("seconds", 0))


def first_tokens(context: BrowserContext, address: str) -> float:
    """Milliseconds from the first contentful paint to the recorded run's first chip."""
    page = context.new_page()
    page.add_init_script(
        """new MutationObserver(() => {
          const roots = [...document.querySelectorAll('*')].map((e) => e.shadowRoot).filter(Boolean);
          if (!window.chipAt && [document, ...roots].some((r) => r.querySelector('button.chip')))
            window.chipAt = performance.now();
        }).observe(document, {subtree: true, childList: true});
        setInterval(() => {
          const roots = [...document.querySelectorAll('*')].map((e) => e.shadowRoot).filter(Boolean);
          if (!window.chipAt && roots.some((r) => r.querySelector('button.chip')))
            window.chipAt = performance.now();
        }, 20);"""
    )
    page.goto(address)
    page.wait_for_function("window.chipAt")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    chip = page.evaluate("window.chipAt")
    page.close()
    return chip - paint


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    server = start_server(folder / "log")
    try:
        with sync_playwright() as playwright:
            context = playwright.chromium.launch_persistent_context(
                str(folder / "profile"), executable_path="/usr/bin/chromium", args=list(CHROMIUM_FLAGS),
                viewport={"width": 1440, "height": 1000}, accept_downloads=True,
            )  # fmt: skip
            context.set_default_timeout(120_000)
            shown = first_tokens(context, server.address)
            print(f"recorded run on screen after the first paint: {shown:.0f} ms")
            bare, paged, clicks = [], [], []
            for _ in range(ROUNDS):
                bare.append(without_page())
                seconds, clicked = with_page(context, server.address)
                paged.append(seconds)
                clicks.append(clicked)
            context.close()
    finally:
        server.end()
    print(f"patched pass, seconds per token: {min(bare):.3f} without a page, {min(paged):.3f} in the page")
    print(f"ratio {min(paged) / min(bare):.2f}; click to coordinates {min(clicks):.2f} s")


if __name__ == "__main__":
    main()
