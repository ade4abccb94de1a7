"""Whatever is done on the page, and in whatever order: what a person can read there is in the records."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.browser.conftest import chromium
from tests.browser.looking import Reader, possible
from tests.browser.reading import read_spoilt
from tests.browser.records import Door, door_server
from tests.browser.state_machine import begin, browser, complaints
from tests.browser.walk import Widgets

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = pytest.mark.browser

EXAMPLES, STEPS = 3, 12
"""Tabs that are walked through, and actions in each."""
ONE_LINE = Widgets(updates=("stable",), dtypes=("float32",), tokens=2)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    chromium()
    pytest.importorskip("playwright")
    log = tmp_path_factory.mktemp("door") / "log"
    with door_server(log) as door:
        yield door
    assert complaints(log) == []


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    with browser(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture
def new_reader(context: BrowserContext, door: Door) -> Iterator[Any]:
    """Opens tabs in which nothing may be wrong at first."""
    readers: list[Reader] = []

    def open_reader(**about: Any) -> Reader:
        readers.append(begin(context, door, **about))
        assert readers[-1].open(random.Random(0)) == []
        return readers[-1]

    yield open_reader
    for reader in readers:
        reader.page.close()


def test_any_order_of_actions(context: BrowserContext, door: Door) -> None:
    class Tab(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.reader = begin(context, door)

        @initialize()
        def open(self) -> None:
            self.meet(self.reader.open(random.Random(0)))

        @rule(data=st.data(), seed=st.integers(0, 2**16))
        def act(self, data: st.DataObject, seed: int) -> None:
            name = data.draw(st.sampled_from(possible(self.reader)))
            self.meet(getattr(self.reader, name)(random.Random(seed)))

        def meet(self, wrong: list[str]) -> None:
            assert wrong == [], f"after {'; '.join(self.reader.done)}"

        def teardown(self) -> None:
            self.reader.page.close()

    few = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        derandomize=True,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(Tab, settings=few)


def test_a_second_run_shows_nothing_of_the_first_nor_does_the_first_when_it_is_back(new_reader: Any) -> None:
    reader, chance = new_reader(widgets=ONE_LINE), random.Random(1)
    assert reader.generate(chance) == []
    assert reader.ask(chance, "How many shapes are there?") == []
    assert reader.generate(chance) == []
    assert reader.back(chance) == []
    assert reader.back(chance) == []


def test_what_is_clicked_last_is_what_is_shown(new_reader: Any) -> None:
    reader, chance = new_reader(), random.Random(2)
    assert reader.chip(chance, 5) == []
    assert reader.chip(chance, 9) == []
    assert reader.metric(chance, "scale_max_abs") == []
    assert reader.metric(chance, "h_abs_min") == []
    assert reader.variant(chance, 2) == []
    assert reader.chip(chance, 4) == []


WORDS_SPOILT = {
    "chips": ".chip:nth-child(2) .said -> textContent = 'Venus'",
    "chip 1's mark and other words": ".written .mark -> textContent = '✗'",
    "chip 3's tooltip": ".chip:nth-child(4) -> title = 'token 3'",
    "headline": ".headline -> textContent = 'Nothing was said.'",
    "detail": ".detail -> textContent = ''",
    "count of alarms": ".alarms .count -> textContent = '▲ 1 alarm'",
    "alarms": ".alarms li -> remove()",
    "patched answer": ".patched .how -> textContent = 'direct float32: 3 of 24 another'",
    "answer without": ".without .said-words -> append(document.createElement('bdi'))",
    "legend's dash of direct bf16": "[data-label='direct bf16'] path -> removeAttribute('stroke-dasharray')",
    "words of the legend": "[data-label='stable f32'] span -> textContent = 'stable bf16'",
    "text of the chart": ".linechart canvas -> setAttribute('aria-label', '')",
    "map's variant": "figure.map select:last-child -> selectedIndex = 1",
    "outline in the map": ".field g[visibility=visible] -> remove()",
    "opened cell": ".behind h3 -> textContent = 'Layer 3'",
    "row of the cell": ".worst tbody td:nth-child(3) -> textContent = '1'",
    "next tokens of the cell": ".next bdi -> textContent = 'Venus'",
}
PIXELS_SPOILT = {
    "line of": ".linechart canvas -> getContext('2d').clearRect(0, 0, 4000, 4000)",
    "map's cell": ".field canvas -> getContext('2d').clearRect(0, 0, 4000, 4000)",
    "axis of": ".linechart .value-tick:not(.beside) -> textContent = '10⁻⁹⁹'",
    "colour bar": ".field text[text-anchor=start]:last-of-type -> textContent = '10⁹'",
}


@pytest.mark.parametrize("spoilt", [WORDS_SPOILT, PIXELS_SPOILT], ids=["words", "pixels"])
def test_whatever_is_spoilt_on_the_page_is_noticed(new_reader: Any, spoilt: dict[str, str]) -> None:
    """Each change of the page, made behind the program's back, is found under its name."""
    reader = new_reader()
    screen = read_spoilt(reader.page, list(spoilt.values()))
    wrong = reader.differences(screen) if spoilt is WORDS_SPOILT else reader.paint(screen, random.Random(4))
    assert [name for name in spoilt if not any(words.startswith(name) for words in wrong)] == []


def test_the_server_log_of_a_broken_program_is_a_complaint(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "You can now view\nTraceback (most recent call last)\nThe fragment with id 3 does not exist\n"
    )
    assert len(complaints(log)) == 2
