"""Links: every setting survives the way into an address and back; nonsense is ignored with a sentence."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxviz.figures.metrics import METRICS as FIELDS
from ctxviz.folds import Fold
from ctxviz.settings import ARITHMETICS, DTYPES, UPDATE_RULES, RunSettings
from ctxviz.shapes.gallery import GALLERY
from ctxviz.shapes.writing import write
from ctxviz.ui.delta import METRICS
from ctxviz.ui.picture_source import MOST_PICTURES
from ctxviz.ui.url_state import (
    MAX_TOKENS,
    PROMPT_IN_LINK,
    VIEWS,
    Link,
    fits_in_link,
    from_query,
    to_query,
    unseen_scenes,
)


def some(known: tuple[str, ...], least: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(st.sampled_from(known), min_size=least).map(lambda s: tuple(k for k in known if k in s))


folds = st.one_of(
    st.sampled_from([Fold("all"), Fold("all-but-bos"), Fold("image"), Fold("text")]),
    st.integers(1, 9999).map(lambda k: Fold("image", number=k)),
    st.tuples(st.integers(0, 500), st.integers(1, 500)).map(lambda t: Fold("span", t[0], t[0] + t[1])),
)
indices = st.none() | st.integers(0, 600)
links = st.builds(
    Link,
    prompt=st.text(max_size=150).filter(fits_in_link),
    model=st.text(max_size=60),
    scenes=st.lists(st.sampled_from([write(s.scene) for s in GALLERY]), max_size=MOST_PICTURES).map(tuple),
    updates=some(UPDATE_RULES),
    floor=st.integers(1, 100).map(lambda k: k / 100),
    arithmetics=some(ARITHMETICS),
    dtypes=some(DTYPES),
    first_layer=st.integers(0, 61),
    fold=folds,
    tokens=st.integers(1, MAX_TOKENS),
    metric=st.sampled_from(list(METRICS)),
    variant=st.integers(0, 31),
    step=indices,
    layer=indices,
    left=st.sampled_from(list(FIELDS)),
    right=st.sampled_from(list(FIELDS)),
    coordinate=indices,
    view=st.sampled_from(VIEWS),
)


@given(links)
def test_a_link_survives_the_way_through_an_address(link: Link) -> None:
    address = urlencode(to_query(link))
    assert from_query(dict(parse_qsl(address, keep_blank_values=True))) == (link, [])


def test_scenes_are_plain_in_the_address_and_brought_into_one_form() -> None:
    link, problems = from_query({"scene": "red-circle-4.blue-square-0.white,yellow-star-4.black"})
    assert not problems
    assert link.scenes == ("blue-square-0.red-circle-4.white", "yellow-star-4.black")
    assert to_query(link) == {"scene": "blue-square-0.red-circle-4.white,yellow-star-4.black"}


def test_defaults_leave_the_address_bare() -> None:
    assert to_query(Link()) == {}
    assert from_query({}) == (Link(), [])


@given(st.text(max_size=4000))
def test_a_long_prompt_is_left_out_and_the_rest_stays(prompt: str) -> None:
    link = Link(prompt=prompt, tokens=7)
    query = to_query(link)
    assert query["tokens"] == "7"
    assert ("prompt" in query) == (fits_in_link(prompt) and prompt != Link().prompt)
    assert len(urlencode(query)) <= PROMPT_IN_LINK + 40


def test_scenes_that_the_model_cannot_read_are_told_of() -> None:
    one, two = ("yellow-star-4.black",), ("yellow-star-4.black",) * 2
    assert unseen_scenes(Link(scenes=one, model="gemma-3-1b-it")).startswith(
        "The link's scene is not used, since"
    )
    assert unseen_scenes(Link(scenes=two, model="a.gguf")).startswith(
        "The link's 2 scenes are not used, since"
    )
    for reads in ("tiny-shapes", "somebody/some-model"):
        assert unseen_scenes(Link(scenes=one, model=reads)) == ""
    assert unseen_scenes(Link(model="gemma-3-1b-it")) == ""


def test_half_a_character_never_gets_into_an_address() -> None:
    assert "prompt" not in to_query(Link(prompt="a\ud800b"))


names = st.sampled_from([
    "prompt", "model", "update", "tau", "arithmetic", "dtype", "first-layer", "fold", "tokens", "metric",
    "scene", "variant", "step", "layer", "coordinate", "view", "else",
])  # fmt: skip
values = st.text(max_size=40) | st.sampled_from(
    ["direct", "1:5", "0.5", "12", "float32", "image:2", "yellow-star-4.black"]
)


@given(st.dictionaries(names, values))
def test_any_query_gives_a_usable_link(query: dict[str, str]) -> None:
    link, problems = from_query(query)
    again, none = from_query(to_query(link))
    assert (again, none) == (link, [])
    if link.updates and link.arithmetics and link.dtypes:
        assert isinstance(link.settings(), RunSettings)
    assert all(problem.endswith("ignored.") for problem in problems)
    assert len(problems) <= len(query)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("update", "stable,<img src=x onerror=alert(1)>"),
        ("update", "best"),
        ("tau", "nan"),
        ("tau", "0"),
        ("tau", "1e999"),
        ("tau", "2"),
        ("dtype", "int8"),
        ("first-layer", "-1"),
        ("first-layer", "٣"),
        ("tokens", "0"),
        ("tokens", "99999999999999999999999"),
        ("fold", "5:5"),
        ("fold", "image:0"),
        ("fold", "image:"),
        ("fold", "picture"),
        ("scene", "red-circle-4"),
        ("scene", "red-circle-4.white,"),
        ("scene", ",".join(["red-circle-4.white"] * (MOST_PICTURES + 1))),
        ("scene", "<img src=x onerror=alert(1)>"),
        ("fold", "9:1"),
        ("metric", "__class__"),
        ("variant", "1.5"),
        ("prompt", "x" * (PROMPT_IN_LINK + 1)),
        ("session", "1"),
        ("view", "everything"),
        ("view", "<b>"),
        ("coordinate", "-1"),
        ("coordinate", "1e3"),
    ],
)
def test_nonsense_is_ignored_with_one_sentence(name: str, text: str) -> None:
    link, problems = from_query({name: text, "tokens": "9"} if name != "tokens" else {name: text})
    assert len(problems) == 1
    assert name in problems[0]
    assert len(problems[0]) < 160
    assert link == (Link(tokens=9) if name != "tokens" else Link())


@pytest.mark.parametrize("field", ["updates", "arithmetics", "dtypes"])
def test_choosing_nothing_is_kept_in_the_link(field: str) -> None:
    link = Link(**{field: ()})
    assert from_query(to_query(link)) == (link, [])


def test_many_unknown_settings_are_one_sentence() -> None:
    link, problems = from_query({f"q{i}": "1" for i in range(300)})
    assert link == Link()
    assert len(problems) == 1
    assert "300 settings" in problems[0]
