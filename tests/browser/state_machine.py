"""A long walk through the page: python -m tests.browser.state_machine --actions 500 --seed 7

Prints every difference between what a person can read and what the records say, and how it was reached.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.browser.conftest import CHROMIUM_FLAGS, LOOPBACK, chromium
from tests.browser.looking import Reader, possible
from tests.browser.reading import COUNT_REQUESTS
from tests.browser.records import Door, door_server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

TAB_ACTIONS = 40
"""After so many actions a new tab is opened."""


@contextmanager
def browser(folder: Path) -> Iterator[BrowserContext]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(folder),
            executable_path=chromium(),
            args=list(CHROMIUM_FLAGS),
            viewport={"width": 1440, "height": 1000},
        )
        context.set_default_timeout(30_000)
        context.add_init_script(COUNT_REQUESTS)
        yield context
        context.close()


def begin(context: BrowserContext, door: Door, **settings: Any) -> Reader:
    """A walk in a new tab, which hears what the browser complains of."""
    page = context.new_page()
    walk = Reader(page, door, **settings)
    page.on("pageerror", lambda error: walk.problems.append(f"page error: {error.message}"))
    page.on("console", lambda said: _hear(walk, said))
    page.on("request", lambda request: _see(walk, request.url))
    return walk


def _hear(walk: Reader, said: Any) -> None:
    if said.type == "error":
        walk.problems.append(f"console: {said.text}")


def _see(walk: Reader, url: str) -> None:
    address = urlsplit(url)
    if address.scheme in ("http", "https", "ws", "wss") and address.hostname not in LOOPBACK:
        walk.problems.append(f"foreign request: {url}")


def stroll(
    context: BrowserContext, door: Door, actions: int, chance: random.Random, deadline: float, skip: set[str]
) -> tuple[int, list[tuple[int, float, str, list[str]]]]:
    """Do so many actions chosen by chance.

    Returns how many were done, and of each after which something differed (its number, seconds since the
    start, what was done last, the differences).
    """
    started, found, done = time.monotonic(), [], 0
    walk = None
    while done < actions and time.monotonic() < deadline:
        if walk is None:
            walk = begin(context, door)
            name = "open"
        else:
            name = chance.choice([name for name in possible(walk) if name not in skip])
        try:
            wrong = getattr(walk, name)(chance)
        except Exception as error:  # An action that cannot be done is a finding too.
            wrong = [f"{type(error).__name__}: {str(error)[:400]}"]
        done += 1
        if wrong:
            found.append((done, time.monotonic() - started, "; ".join(walk.done[-6:]), wrong))
            print(
                f"[{done}, {found[-1][1]:.0f} s] after: {found[-1][2]}", *wrong[:6], sep="\n    ", flush=True
            )
            if len(wrong) > 6:
                print(f"    and {len(wrong) - 6} more")
        if wrong or len(walk.done) >= TAB_ACTIONS:
            # A tab that shows something wrong would only go on doing so.
            walk.page.close()
            walk = None
    return done, found


def complaints(log: Path) -> list[str]:
    """The lines of a server's log that a sound program does not write."""
    signs = ("Traceback", "does not exist", "Exception", "Error")
    return [line for line in log.read_text().splitlines() if any(sign in line for sign in signs)]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--actions", type=int, default=200)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--minutes", type=float, default=60.0)
    asked.add_argument("--skip", nargs="*", default=[], help="names of actions that are left out")
    options = asked.parse_args()
    folder = Path(tempfile.mkdtemp())
    with door_server(folder / "log") as door, browser(folder / "profile") as context:
        started = time.monotonic()
        deadline = started + 60 * options.minutes
        done, found = stroll(
            context, door, options.actions, random.Random(options.seed), deadline, {*options.skip}
        )
        spent = time.monotonic() - started
    kinds = Counter(words.split(":")[0] for *_, wrong in found for words in wrong)
    print(f"{done} actions in {spent:.0f} s, seed {options.seed}; {len(found)} of them left the page wrong")
    for kind, count in kinds.most_common():
        print(f"  {count:4} {kind}")
    for line in complaints(folder / "log"):
        print(f"  server: {line}")


if __name__ == "__main__":
    main()
