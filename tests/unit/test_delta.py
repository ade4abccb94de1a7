"""What the browser is sent: enough, no more, and nothing JSON has no number for."""

import base64
import csv
import gc
import io
import json
import math
import weakref
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxviz.alarms import find
from ctxviz.figures.card import BYTE_ORDER_MARK
from ctxviz.figures.text import readable
from ctxviz.figures.words import alarms
from ctxviz.folds import Context, Fold, ImageSpan
from ctxviz.records import ModelIdentity, Reference, Step, WithoutContext
from ctxviz.replaying import differs, margins, ties
from ctxviz.run import Run, replay_name
from ctxviz.settings import RunSettings
from ctxviz.ui import delta, tables
from ctxviz.ui.shown_prompt import PROMPT_ENDS
from ctxviz.ui.views import ReferenceLog, View, Views
from tests.browser import harness
from tests.synthetic import synthetic_items, synthetic_run

LARGEST_PER_TOKEN = {18: 2048, 62: 2214}
"""Bytes, by layers. A layer's number of the heat map is an exact float32: in base64 that takes 8/3 bytes more
than the 16 bits of a colour, for which 2048 were enough at 62 layers."""
FLAT = 1.15
"""Bytes per token late in a run against early: within 15 %."""


def shown(layers: int = 6, tokens: int = 12) -> View:
    view = View()
    view.show(harness.whole(layers, tokens), "done")
    return view


def numbers(answer: dict, layers: int) -> np.ndarray:
    """The columns of a heat map, [steps, layers]."""
    raw = base64.b64decode(answer["values"])
    return np.frombuffer(raw, "<f4").reshape(-1, layers)


def grow(layers: int, tokens: int, updates: tuple[str, ...]) -> list[int]:
    """Bytes of the answer after each token, asked for one token at a time."""
    run = harness.empty_run(layers, harness.settings(tokens, updates))
    view, held, sizes = View(), delta.Held(), []
    view.show(run, "running")
    for event in harness.tokens(run):
        if isinstance(event, Reference):
            run.refer(event)
            continue
        run.append(event)
        answer = delta.delta(view, held, "h_abs_min", 0)
        held = delta.Held(answer["n"], answer["references"], answer["epoch"])
        sizes.append(len(json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()))
    return sizes


@pytest.mark.parametrize(("layers", "tokens"), [(18, 200), (62, 512)])
def test_bytes_per_token_are_few_and_flat(layers, tokens):
    sizes = grow(layers, tokens, ("direct", "stable"))
    early, late = np.mean(sizes[10:42]), np.mean(sizes[-32:])
    assert max(sizes[1:]) <= LARGEST_PER_TOKEN[layers]
    assert late <= FLAT * early


def test_a_browser_that_asks_piece_by_piece_ends_with_the_same_as_one_that_asks_once():
    run = harness.empty_run(5, harness.settings(20))
    view, held = View(), delta.Held()
    view.show(run, "running")
    tokens, columns, referred = [], [], {}
    for event in harness.tokens(run):
        run.append(event) if isinstance(event, Step) else run.refer(event)
        answer = delta.delta(view, held, "scale_ratio", 1)
        held = delta.Held(answer["n"], answer["references"], answer["epoch"])
        tokens += answer.get("tokens", [])
        if "field" in answer:
            columns.append(numbers(answer["field"], 5))
        referred |= {(step, dtype): rest for step, dtype, *rest in answer.get("referred", [])}
    whole = delta.delta(view, delta.Held(), "scale_ratio", 1)
    assert tokens == whole["tokens"]
    assert np.array_equal(np.concatenate(columns), numbers(whole["field"], 5))
    assert np.array_equal(numbers(whole["field"], 5), run.field("scale_ratio", 1).T)
    assert referred == {(step, dtype): rest for step, dtype, *rest in whole["referred"]}
    assert all(rest[0] is not None for rest in referred.values())


def test_a_token_says_what_each_variant_did():
    view = shown(tokens=60)
    run, answer = view.run, delta.delta(view, delta.Held(), "h_abs_min", 0)
    assert run is not None
    differing = 0
    for step, (_, seconds, *variants) in enumerate(answer["tokens"]):
        assert seconds == 0.05
        for k, (flags, tvd, gap, ratio, _, _, *other) in enumerate(variants):
            assert bool(flags & 1) == bool(run.series("match", k)[step])
            assert bool(flags & 2) == bool(run.series("tie", k)[step])
            assert tvd == pytest.approx(run.series("tvd", k)[step], rel=1e-3)
            assert gap == pytest.approx(run.series("logit_linf", k)[step], rel=1e-3)
            assert ratio == pytest.approx(run.field("scale_ratio", k)[:, step].max(), rel=1e-3)
            assert other == ([] if flags & 1 else ["·ash"])
            differing += bool(other)
    assert differing


def test_nothing_new_means_nothing_but_the_state():
    view = shown()
    first = delta.delta(view, delta.Held(), "h_abs_min", 0)
    again = delta.delta(view, delta.Held(first["n"], first["references"], first["epoch"]), "h_abs_min", 0)
    assert not {"tokens", "field", "referred", "run", "verdict"} & set(again)
    assert again["state"] == "done"


@pytest.mark.parametrize("held", [delta.Held(13, 0, 1), delta.Held(0, 10**6, 1), delta.Held(12, 0, 0)])
def test_a_browser_that_holds_something_else_starts_afresh(held):
    answer = delta.delta(shown(), held, "h_abs_min", 0)
    assert (answer["from"], len(answer["tokens"]), answer["run"]["layers"]) == (0, 12, 6)


def test_another_run_in_the_same_view_replaces_the_first():
    view = shown(tokens=12)
    first = delta.delta(view, delta.Held(), "h_abs_min", 0)
    view.show(harness.whole(6, 15), "done")
    held = delta.Held(first["n"], first["references"], first["epoch"])
    answer = delta.delta(view, held, "h_abs_min", 0)
    assert (answer["from"], answer["n"]) == (0, 15)
    assert answer["epoch"] > first["epoch"]


def test_a_view_without_a_run_says_so():
    view = View()
    view.tell("loading", stage="loading weights", progress=0.25)
    answer = delta.delta(view, delta.Held(), "h_abs_min", 0)
    assert (answer["run"], answer["n"], answer["stage"], answer["progress"]) == (
        None,
        0,
        "loading weights",
        0.25,
    )
    assert not {"tokens", "field", "referred", "verdict", "alarms", "without"} & set(answer)


def test_a_variant_the_run_lacks_becomes_the_first():
    view = shown()
    assert view.run is not None
    field = delta.delta(view, delta.Held(), "h_abs_min", 99)["field"]
    assert field["variant"] == 0
    assert np.array_equal(numbers(field, 6), view.run.field("h_abs_min", 0).T)


def one_token(tvd: float, gap: float, ratios: Sequence[float]) -> View:
    """A run of one token whose first variant has these numbers."""
    run = harness.empty_run(len(ratios), harness.settings(1))
    step = next(harness.tokens(run))
    assert isinstance(step, Step)
    object.__setattr__(step.variants[0], "tvd", tvd)
    object.__setattr__(step.variants[0], "logit_linf", gap)
    step.variants[0].layers.scale_ratio[:] = ratios
    run.append(step)
    view = View()
    view.show(run, "running")
    return view


@pytest.mark.parametrize(
    ("tvd", "gap", "ratios", "told"),
    [
        (math.nan, math.nan, [math.nan] * 3, [None, None, None]),
        (math.inf, math.inf, [1.0, math.inf, math.nan], ["no number"] * 3),
        (0.25, math.inf, [1.0, 2.0, math.nan], [0.25, "no number", 2.0]),
        (math.nan, -math.inf, [math.nan, math.inf, 0.0], [None, "no number", "no number"]),
    ],
)
def test_what_is_no_number_is_told_from_what_was_not_measured(tvd, gap, ratios, told):
    view = one_token(tvd, gap, ratios)
    answer = delta.delta(view, delta.Held(), "scale_ratio", 0)
    assert answer["tokens"][0][2][1:4] == told
    assert numbers(answer["field"], 3)[0].tolist() == pytest.approx(ratios, nan_ok=True)
    json.dumps(answer, allow_nan=False)


NUMBERS = st.floats(width=32)
"""Subnormal, negative, infinite and NaN among them."""


@given(st.lists(NUMBERS, min_size=1, max_size=12))
def test_the_map_is_sent_to_the_bit(found):
    values = np.array(found, np.float32)
    run = harness.empty_run(len(found), harness.settings(1))
    step = next(harness.tokens(run))
    assert isinstance(step, Step)
    step.variants[2].layers.h_abs_min[:] = values
    run.append(step)
    view = View()
    view.show(run, "running")
    sent = numbers(delta.delta(view, delta.Held(), "h_abs_min", 2)["field"], len(found))[0]
    lost = np.isnan(values)
    assert np.array_equal(np.isnan(sent), lost)
    assert sent[~lost].tobytes() == values[~lost].tobytes()


def test_weight_ratio_is_the_largest_matrix_and_ignores_the_untouched():
    run = harness.whole(6, 3)
    stable = 1
    assert np.isnan(run.field("down_ratio", stable)).all()
    run._fields["gate_ratio"].array[1, stable, 2] = np.inf
    view = View()
    view.show(run, "done")
    expected = np.maximum(run.field("gate_ratio", stable), run.field("up_ratio", stable)).T
    assert np.isinf(expected[1, 2])
    field = delta.delta(view, delta.Held(), "weight_ratio", stable)["field"]
    assert np.array_equal(numbers(field, 6), expected)


def test_what_the_unpatched_model_wrote_comes_when_the_run_rests_and_to_a_browser_that_starts_afresh():
    run = harness.whole(4, 6)
    run.without_context = WithoutContext("float32", (3, 4, 5), (" Dear", "\n", "\u202ereader"), ended=False)
    view, held = View(), delta.Held(6, 10**6, 1)
    view.show(run, "running")
    known = delta.delta(view, delta.Held(), "h_abs_min", 0)
    told = {"texts": ["·Dear", "⏎", readable("\u202ereader")], "ended": False, "dtype": "float32"}
    assert known["without"] == told
    assert "\u202e" not in json.dumps(known, ensure_ascii=False)
    held = delta.Held(6, known["references"], known["epoch"])
    assert "without" not in delta.delta(view, held, "h_abs_min", 0)
    view.tell("done")
    assert delta.delta(view, held, "h_abs_min", 0)["without"] == told
    run.without_context = replace(run.without_context, ended=True)
    assert delta.delta(view, held, "h_abs_min", 0)["without"]["ended"] is True
    run.without_context = None
    assert delta.delta(view, held, "h_abs_min", 0)["without"] is None


@pytest.mark.parametrize(
    ("fold", "kept"),
    [(Fold("all"), {399}), (Fold("all-but-bos"), {0, 399}), (Fold("span", 1, 10), {0, *range(10, 400)})],
)
def test_the_prompt_says_what_is_folded_and_leaves_out_its_middle(fold, kept):
    texts = tuple(f"w{i}" for i in range(400))
    context = Context("", tuple(range(400)), texts, fold)
    run = Run(ModelIdentity("k", "n", "a", 2, 4, 9), context, RunSettings(fold=fold))
    prompt = delta.describe(run)["prompt"]
    ends = [*range(PROMPT_ENDS)], [*range(400 - PROMPT_ENDS, 400)]
    first, last = ([[f"w{i}", int(i not in kept)] for i in end] for end in ends)
    assert prompt["items"] == [*first, {"omitted": 100}, *last]
    assert (prompt["omitted"], prompt["folded"], prompt["length"]) == (100, 400 - len(kept), 400)


@pytest.mark.parametrize(
    ("fold", "folded", "ranges", "marks", "others"),
    [
        ("all", 4, [[0, 4]], 2, 1),
        ("image", 4, [[0, 4]], 2, 0),
        ("text", 0, [], 0, 1),
        ("0:4", 2, [[0, 2]], 1, 0),
        ("2:6", 4, [[0, 4]], 0, 0),
        ("4:9", 2, [[2, 4]], 1, 1),
    ],
)
def test_a_picture_is_one_item_with_its_folded_tiles(fold, folded, ranges, marks, others):
    run = harness.pictured((2,), fold)
    prompt = delta.describe(run, "view")["prompt"]
    bos, picture, *words = prompt["items"]
    assert (bos[0], picture, [text for text, _ in words[:2]]) == ("<bos>", 0, ["⏎⏎", "Describe"])
    assert words[0][1] == others
    sha256 = run.pictures[0].sha256[:12]
    assert prompt["images"] == [
        {
            "start": 1,
            "end": 7,
            "side": 2,
            "tokens": 4,
            "folded": folded,
            "folded_tokens": ranges,
            "folded_marks": marks,
            "sha256": sha256,
            "src": f"/_ctxviz/picture/view/0?sha256={sha256}",
            "size": [256, 256],
        }
    ]
    assert prompt["folded"] == len(run.context.folded(len(run.context.token_ids)))


def test_a_run_without_its_pictures_names_no_address_for_them():
    images = delta.describe(harness.pictured((2, 3), "all", stored=False), "view")["prompt"]["images"]
    assert [(i["src"], i["size"], len(i["sha256"]), i["tokens"]) for i in images] == [
        (None, None, 12, 4),
        (None, None, 12, 9),
    ]


def test_the_middle_of_a_long_prompt_is_left_out_around_its_pictures():
    pieces = [f"w{i}" for i in range(500)]
    spans = (ImageSpan(100, 300), ImageSpan(310, 400))
    context = Context("", tuple(range(500)), tuple(pieces), Fold(), ("a" * 64, "b" * 64), spans)
    run = Run(ModelIdentity("k", "n", "a", 2, 4, 9), context, RunSettings())
    assert [item for item in delta.describe(run)["prompt"]["items"] if not isinstance(item, list)] == [0, 1]
    spans = (ImageSpan(0, 20), ImageSpan(200, 220), ImageSpan(300, 320))
    texts = tuple(f"w{i}" for i in range(600))
    run = Run(run.model, Context("", tuple(range(600)), texts, Fold(), ("a" * 64,) * 3, spans), RunSettings())
    prompt = delta.describe(run)["prompt"]
    items = prompt["items"]
    assert [item for item in items if not isinstance(item, list)] == [
        0, {"omitted": 31}, 1, {"omitted": 80}, 2, {"omitted": 130}
    ]  # fmt: skip
    assert (items[1][0], items[149][0], items[-PROMPT_ENDS][0]) == ("w20", "w168", "w450")
    assert len(items) == 2 * PROMPT_ENDS + 5
    assert prompt["omitted"] == 241


def test_references_are_noticed_once_and_in_order():
    run, log = harness.whole(2, 4), ReferenceLog()
    seen = len(log.notice(run))
    assert log.notice(run)[seen:] == []
    run.refer(Reference(3, run.dtypes[1], noise_floor_tvd=0.5))
    assert log.notice(run)[seen:] == [(3, 1)]


def test_a_reference_that_is_no_number_is_sent():
    run = harness.empty_run(3, harness.settings(1))
    view = View()
    view.show(run, "running")
    run.append(next(event for event in harness.tokens(run) if isinstance(event, Step)))
    known = delta.delta(view, delta.Held(), "h_abs_min", 0)
    run.refer(Reference(0, run.dtypes[1], unpatched_tvd=math.inf, noise_floor_tvd=0.5))
    held = delta.Held(known["n"], known["references"], known["epoch"])
    [[step, dtype, unpatched, floor, *_]] = delta.delta(view, held, "h_abs_min", 0)["referred"]
    assert (step, dtype, unpatched, floor) == (0, 1, "no number", 0.5)
    held = delta.Held(1, known["references"] + 1, known["epoch"])
    run.refer(Reference(0, run.dtypes[0], unpatched_tvd=math.inf))
    assert delta.delta(view, held, "h_abs_min", 0)["referred"][0][:3] == [0, 0, "no number"]


def test_views_are_bounded_and_the_idle_go_first():
    registry = Views(limit=3)
    busy, idle, recent = registry.create(), registry.create(), registry.create()
    busy.tell("running")
    busy.last_used, idle.last_used, recent.last_used = 1.0, 2.0, 3.0
    created = registry.create()
    assert registry.get(idle.id) is None
    assert all(registry.get(view.id) is view for view in (busy, recent, created))


def test_runs_of_closed_tabs_are_given_up_by_their_size():
    sample = harness.whole(6, 12)
    size = sample.nbytes + sample.vector_bytes
    registry = Views(room=2 * size)
    views = [registry.create() for _ in range(4)]
    for k, view in enumerate(views):
        view.show(harness.whole(6, 12), "paused" if k == 0 else "done")
        view.last_used = float(k)
    created = registry.create()
    assert [registry.get(view.id) is view for view in views] == [True, False, False, True]
    assert registry.get(created.id) is created


def test_alarms_come_now_and_then_and_all_of_them_at_the_end():
    run = harness.empty_run(6, harness.settings(20))
    view, held = View(), delta.Held()
    view.show(run, "running", ("Take care.",))
    sent, notes = [], None
    for event in harness.tokens(run):
        run.append(event) if isinstance(event, Step) else run.refer(event)
        answer = delta.delta(view, held, "h_abs_min", 0)
        held = delta.Held(answer["n"], answer["references"], answer["epoch"])
        notes = answer["run"]["notes"] if "run" in answer else notes
        if "alarms" in answer:
            sent.append(answer["n"])
            assert len(answer["alarms"]["list"]) <= delta.ALARMS_AT_WORK
    assert notes == ["Take care."]
    assert sent == [1, 8, 16]
    view.tell("done")
    told = delta.delta(view, held, "h_abs_min", 0)["alarms"]
    assert len(told["list"]) == len(alarms(run)), "the worst of each kind"
    assert told["count"] == len([a for a in find(run) if a.kind != "tie"]) > len(told["list"]), "every place"


def test_tables_hold_what_is_drawn_and_guard_formulas():
    run = harness.whole(4, 30)
    rows = read_csv(tables.chart_csv(run, "patch_ratio"))
    assert rows[0][:3] == ["step", "token", "direct float32 written"]
    assert float(rows[1][2]) == pytest.approx(float(run.field("scale_ratio", 0)[:, 0].max()))
    assert rows[25][:2] == ["24", "' =2+2"]
    assert sum(row[2] == "direct bfloat16 written" for row in read_csv(tables.tokens_csv(run))) == 30


def test_a_table_says_no_number_and_leaves_a_gap_where_nothing_was_measured():
    run = harness.whole(4, 6)
    run._series["tvd"].array[2, 0] = np.inf
    run._series["tvd"].array[3, 0] = np.nan
    run._fields["scale_ratio"].array[1, 0, 3] = np.inf
    run._fields["scale_ratio"].array[4, 0, :] = np.nan
    assert [row[2] for row in read_csv(tables.chart_csv(run, "tvd"))[3:5]] == ["no number", ""]
    ratio = [row[2] for row in read_csv(tables.chart_csv(run, "patch_ratio"))[1:]]
    assert [k for k, cell in enumerate(ratio) if cell == "no number"] == [1]
    assert [k for k, cell in enumerate(ratio) if cell == ""] == [4]


def read_csv(text: str) -> list[list[str]]:
    assert text[0] == BYTE_ORDER_MARK
    return list(csv.reader(io.StringIO(text[1:])))


def test_a_run_with_replays_sends_their_worst_distance_and_whether_the_token_is_the_same():
    run = synthetic_run(6, 16, 8, replays=("same", "batch", "rounded"), hold=3)
    view = View()
    view.show(run, "done")
    answer = delta.delta(view, delta.Held(), "h_abs_min", 0)
    assert answer["run"]["extras"] == ["replay", "held"]
    direct, stable = (run.variants.index(v) for v in run.variants[:2])
    for k, token in enumerate(answer["tokens"]):
        for i in (direct, stable):
            flags, *_, replay, held = token[2 + i][:6]
            batch = run.replay("batch", "tvd", i)[k]
            assert replay == pytest.approx(max(batch, run.replay("same", "tvd", i)[k]), rel=1e-3)
            assert bool(flags & 4) == bool(run.replay("batch", "match", i)[k])
            assert (held is None) == (k < 3)
            assert bool(flags & 8) == (k <= 3)
    assert answer["tokens"][0][2 + direct][4] > 0.5 > answer["tokens"][0][2 + stable][4]
    assert (
        "the finished weights of stable float32 and stable bfloat16 carry the context" in answer["verdict"][1]
    )
    assert "those of direct float32 and direct bfloat16 do not carry it" in answer["verdict"][1]


def test_a_run_without_replays_has_no_further_charts_and_no_sentence_about_them():
    answer = delta.delta(shown(), delta.Held(), "h_abs_min", 0)
    assert answer["run"]["extras"] == []
    assert all(entry[4:6] == [None, None] for token in answer["tokens"] for entry in token[2:])
    assert "run again" not in answer["verdict"][1]


def test_only_rounded_weights_are_drawn_where_only_they_were_replayed():
    run = synthetic_run(6, 16, 4, replays=("rounded",))
    worst = delta.worst_replay(run, 0, 0, 4)
    assert np.array_equal(worst, run.replay("rounded", "tvd", 0))
    assert "replay,token" not in tables.chart_csv(run, "replay_tvd")
    assert f"{worst[1]!r}".split("(")[-1].rstrip(")") in tables.chart_csv(run, "replay_tvd")


def write(run: Run, kind: str, metric: str, variant: int, step: int, value: float) -> None:
    run._series[replay_name(kind, metric)].array[step, variant] = value


def entries(run: Run, start: int = 0) -> list[list[list]]:
    """Per token what is sent of each variant, by a browser that holds ``start`` tokens."""
    view = View()
    view.show(run, "done")
    answer = delta.delta(view, delta.Held(start, 0, view.epoch), "h_abs_min", 0)
    return [token[2:] for token in answer["tokens"]]


@pytest.mark.parametrize("start", [0, 4, 7])
def test_another_token_of_a_replay_is_a_tie_below_the_latest_noise_floor(start):
    run = synthetic_run(6, 16, 10, replays=("same", "batch"), hold=1, faults=False)
    stable = 1
    for step in (3, 6, 9):
        write(run, "batch", "match", stable, step, 0)
    floors = run._references["noise_floor_linf"].array
    floors[4, 0] = run.baseline(6, "float32").margin * 1.01
    floors[8, 0] = run.baseline(9, "float32").margin * 0.99
    tie = ties(run, stable)
    assert (tie[6], tie[9], tie[3]) == (True, False, False)
    for step, found in enumerate(entries(run, start), start):
        for k in range(len(run.variants)):
            flags, tie = found[k][0], ties(run, k)[step]
            other = differs(run, k, "batch")[step] or differs(run, k, "same")[step]
            held = differs(run, k, "held")[step]
            assert (bool(flags & 4), bool(flags & 16)) == (not other, bool(other and tie))
            assert (bool(flags & 8), bool(flags & 32)) == (not held, bool(held and tie))
            assert flags < 64
    assert entries(run, start)[9 - start][stable][0] & 20 == 0


def test_a_floor_that_comes_after_its_token_corrects_what_was_sent():
    whole = synthetic_run(6, 16, 10, replays=("batch",), hold=2)
    run = Run(whole.model, whole.context, whole.settings)
    view, held, tokens, corrected = View(), delta.Held(), [], 0
    view.show(run, "running")
    for event in synthetic_items(run, 10):
        if isinstance(event, Step):
            run.append(event)
        elif event.step in (4, 8):
            margin = run.baseline(event.step, event.dtype).margin
            run.refer(Reference(event.step, event.dtype, noise_floor_linf=margin * 1.01))
        answer = delta.delta(view, held, "h_abs_min", 0)
        held = delta.Held(answer["n"], answer["references"], answer["epoch"])
        tokens += answer.get("tokens", [])
        for step, flags in answer.get("flags", []):
            assert step < answer["from"]
            corrected += flags != [entry[0] for entry in tokens[step][2:]]
            for entry, flag in zip(tokens[step][2:], flags, strict=True):
                entry[0] = flag
    assert corrected
    assert [token[2:] for token in tokens] == entries(run)


def test_a_replay_whose_logits_are_no_numbers_is_not_one_that_was_not_made():
    run = synthetic_run(6, 16, 8, replays=("same", "batch"), hold=3)
    stable = 1
    write(run, "batch", "tvd", stable, 5, np.inf)
    write(run, "held", "tvd", stable, 6, np.inf)
    write(run, "batch", "tvd", stable, 2, np.nan)
    write(run, "batch", "match", stable, 2, np.nan)
    found = [entry[stable] for entry in entries(run)]
    assert [step for step, entry in enumerate(found) if entry[4] == "no number"] == [5]
    assert [step for step, entry in enumerate(found) if entry[5] == "no number"] == [6]
    assert found[2][4] == pytest.approx(run.replay("same", "tvd", stable)[2], rel=1e-3)
    assert not any("no number" in entry for token in entries(run) for entry in token[:1])
    for chart, lost in (("replay_tvd", [5]), ("held_tvd", [6])):
        rows = read_csv(tables.chart_csv(run, chart))
        assert [int(row[0]) for row in rows[1:] if row[2 + stable] == "no number"] == lost
    assert read_csv(tables.chart_csv(run, "held_tvd"))[1][2 + stable] == ""


def test_margins_are_read_once_and_forgotten_with_their_run(monkeypatch):
    whole = synthetic_run(2, 8, 6, vectors=False)
    run = Run(whole.model, whole.context, whole.settings)
    read, baseline = [], Run.baseline

    def counted(self: Run, step: int, dtype: str):
        read.append((step, dtype))
        return baseline(self, step, dtype)

    monkeypatch.setattr(Run, "baseline", counted)
    for event in synthetic_items(run, 6, vectors=False):
        if isinstance(event, Step):
            run.append(event)
            for dtype in run.dtypes:
                assert margins(run, dtype).tolist() == [
                    baseline(run, k, dtype).margin for k in range(len(run))
                ]
                margins(run, dtype)
    assert sorted(read) == sorted((k, dtype) for k in range(6) for dtype in run.dtypes)
    gone = weakref.ref(run)
    del run
    gc.collect()
    assert gone() is None
