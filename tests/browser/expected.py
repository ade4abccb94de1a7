"""What the records say should stand on the Live page, held against what a person can read there.

Numbers are written by tests.browser.findings; sentences come from ctxviz.figures, where they are tested.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ctxviz.alarms import find
from ctxviz.figures.cell import Missing
from ctxviz.figures.cell import find as find_cell
from ctxviz.figures.coordinates import worst_table
from ctxviz.figures.replay_words import replays_sentence
from ctxviz.figures.text import readable
from ctxviz.figures.words import alarms, verdict
from ctxviz.run import Run
from tests.browser.curves import Looked, finite, heat_map, inspected, lines, names, opened
from tests.browser.findings import ROUNDED, Findings

MARKS: Final = {"mismatch": "✗", "uncontrolled": "!", "blow-up": "▲", "swallowed": "↧", "dead": "†"}
SHADES: Final = (1e-6, 1e-4, 1e-2, 0.1)


def others(run: Run, step: int) -> list[tuple[int, str, bool]]:
    """(variant, its token, whether it is a tie) of those that did not say the same."""
    found = []
    for k in range(len(run.variants)):
        if run.series("match", k)[step] != 1:
            texts = run.top(step, k).texts
            tie = bool(run.series("tie", k)[step] == 1)
            found.append((k, readable(texts[0] if texts else "no token"), tie))
    return found


def live(screen: dict[str, Any], run: Run, looked: Looked, state: str, hidden: frozenset[str]) -> list[str]:
    """Every difference between the Live page and the run it is to show; ``hidden`` lines are not drawn."""
    found = Findings()
    page = screen["live"]
    if page is None:
        return ["the live view is not on the page"]
    found.same("state", page["state"], state)
    if any(page[part] is None for part in ("patched", "without", "lines", "map", "behind")):
        return [*found.told, "a part of the live view is not on the page"]
    _sentences(found, page, run, state)
    _chips(found, page["chips"], run, looked)
    _answers(found, page, run, looked)
    _prompt(found, page, run)
    _alarms(found, page, run)
    lines(found, page["lines"], run, looked, hidden)
    heat_map(found, page["map"], run, looked)
    _behind(found, page["behind"], run, looked)
    return found.told


def _sentences(found: Findings, page: dict[str, Any], run: Run, state: str) -> None:
    said = verdict(run)
    found.same("headline", page["headline"], said.headline)
    found.same("emphasis", page["emphasis"], said.emphasis)
    found.same("detail", page["detail"], " ".join(filter(None, (said.detail, replays_sentence(run)))))
    n, asked = len(run), run.settings.max_new_tokens
    made = f"{n} token" if n == 1 else f"{n} tokens"
    if state == "done":
        spent = float(finite(run.token(step)[5] for step in range(n)).mean())
        seconds = [f"{spent:.0f} s each"] if spent >= 10 else [spent, " s each"]
        found.says("status", page["status"], f"Finished · {made} · ", *seconds)
    elif state == "paused":
        so_far = made if n == asked else f"{n} of {asked} token{'' if asked == 1 else 's'}"
        found.same("status", page["status"], f"Paused · {so_far}")
    elif state == "stopped":
        found.same("status", page["status"], f"Stopped · {made}")


def _chips(found: Findings, chips: list[dict[str, Any]], run: Run, looked: Looked) -> None:
    texts = [readable(run.token(step)[4]) for step in range(len(run))]
    found.same("chips", [chip["text"] for chip in chips], texts)
    if len(chips) != len(texts):
        return
    for step, chip in enumerate(chips):
        differing = others(run, step)
        told = list(dict.fromkeys(text for _, text, _ in differing))
        mark = "" if not differing else "≈" if all(tie for _, _, tie in differing) else "✗"
        found.same(f"chip {step}'s mark and other words", (chip["mark"], chip["others"]), (mark, told))
        found.same(f"chip {step}'s tooltip", chip["title"], chip["words"])
        _chip_words(found, step, chip, run, differing)
    pressed = [step for step, chip in enumerate(chips) if chip["pressed"]]
    found.same("outlined chip", pressed, [] if looked.step is None else [looked.step])


def _chip_words(
    found: Findings, step: int, chip: dict[str, Any], run: Run, differing: list[tuple[int, str, bool]]
) -> None:
    tvds = [float(run.series("tvd", k)[step]) for k in range(len(run.variants))]
    parts: list[str | float] = [f"token {step} “{chip['text']}”: "]
    for k, text, tie in differing:
        how = "said (a tie inside the noise floor)" if tie else "said"
        parts += [f"{names(run)[k]} {how} “{text}”, TVD ", tvds[k]]
    if not differing:
        parts += ["every patched model said the same; largest TVD ", float(np.max(tvds))]
    found.says(f"chip {step}'s words", chip["words"], *parts)
    worst = max(0.0, *(1.0 if np.isnan(tvd) else tvd for tvd in tvds))
    near = {f"shade{sum(worst * (1 + off) >= limit for limit in SHADES)}" for off in (-ROUNDED, 0, ROUNDED)}
    found.holds(
        f"chip {step}'s line", chip["shade"] in near, f"{chip['shade']}, not {near} for TVD {worst:.3g}"
    )


def _answers(found: Findings, page: dict[str, Any], run: Run, looked: Looked) -> None:
    """What the variant that is looked at would have said, and what the unpatched model wrote by itself."""
    said, other = [], []
    for step in range(len(run)):
        mine = [(text, tie) for k, text, tie in others(run, step) if k == looked.variant]
        said += [f"{'≈' if tie else '✗'}{text}" for text, tie in mine] or [readable(run.token(step)[4])]
        other += [said[-1]] if mine else []
    how = f"{len(other)} of {len(run)} another" if other else "the same"
    found.same("patched answer", page["patched"]["how"], f"{names(run)[looked.variant]}: {how}")
    found.same("patched answer's words", page["patched"]["words"], said)
    found.same("patched answer's other words", page["patched"]["other"], other)
    alone = run.without_context
    found.same(
        "answer without", page["without"]["words"], [] if alone is None else list(map(readable, alone.texts))
    )
    if alone is None:
        found.same("answer without", page["without"]["whole"], "not made for this run")


def _prompt(found: Findings, page: dict[str, Any], run: Run) -> None:
    context, length = run.context, len(run.context.token_ids)
    folded = set(context.folded(length))
    found.says("prompt's tokens", page["prompt"], f"Prompt: {length} tokens", f"{len(folded)} folded")
    if page["pieces"] and not context.images and length <= 300:
        pieces = [[readable(text), p in folded] for p, text in enumerate(context.token_texts)]
        found.same("prompt's tokens", page["pieces"], pieces)


def _alarms(found: Findings, page: dict[str, Any], run: Run) -> None:
    wanted = [[MARKS.get(alarm.kind, "!"), alarm.sentence] for alarm in alarms(run)]
    total = sum(alarm.kind != "tie" for alarm in find(run))
    counted = f"▲ {total} alarm{'' if total == 1 else 's'}" if total else ""
    found.same("count of alarms", page["count"], counted)
    found.same("alarms", page["alarms"], wanted)
    if len(wanted) < total:
        found.says("alarms", page["moreAlarms"], f"and {total - len(wanted)} more")


def _behind(found: Findings, page: dict[str, Any], run: Run, looked: Looked) -> None:
    """The cell that is opened: what is picked, or the smallest denominator of the run."""
    if page["busy"]:
        found.told.append("opened cell: it is still being fetched")
        return
    cell = inspected(run, looked)
    step, layer, k = cell.step or 0, cell.layer or 0, cell.variant
    start = opened(run, looked)
    place = f"Layer {layer}, token {step} “{readable(run.token(step)[4])}”, {names(run)[k]}"
    vectors = run.vectors(step, k)
    known = vectors is not None and not isinstance(find_cell(run, step, layer, k), Missing)
    worst = worst_table(vectors, layer) if known and vectors is not None else []
    if worst:
        first = worst[0]
        change, denominator = (_clause(*pair) for pair in (("|Δm|", first.delta_m), ("|h|", first.h)))
        smallest = int(run.field("h_argmin", k)[layer, step])
        parts = [f"{start}{place}: ", *change, " where ", *denominator, f", coordinate {first.j}"]
        if smallest not in (-1, first.j):
            low = _clause("|h|", float(run.field("h_abs_min", k)[layer, step]))
            parts = [f"{start}{place}: smallest ", *low, f", coordinate {smallest}; largest ", *change]
            parts.append(f", coordinate {first.j}")
        found.says("opened cell", page["title"], *parts)
    else:
        found.same("opened cell", page["title"], f"{start}{place}")
    found.holds(
        "opened cell", page["title"].startswith(start + place), f"“{page['title']}” is not of {start}{place}"
    )
    found.same("way to the layer", page["layers"], f"All of layer {layer} →")
    rows = len(page["rows"])
    found.holds("table of the cell", rows >= 3 if worst else rows == 0, f"it has {rows} rows")
    for row, wanted in zip(page["rows"], worst, strict=False):
        numbers = (wanted.h, wanted.delta_v, wanted.m, wanted.delta_m)
        found.says(
            "row of the cell",
            "|".join([*row, ""]),
            str(wanted.j),
            *(p for x in numbers for p in ("|", float(x))),
        )
    _next_words(found, page, run, step, k)


def _clause(symbol: str, value: float) -> tuple[str | float, ...]:
    """``|h| = 3·10⁻⁸``, or ``|h| is no number``."""
    return (f"{symbol} = ", abs(value)) if np.isfinite(value) else (f"{symbol} is ", abs(value))


def _next_words(found: Findings, page: dict[str, Any], run: Run, step: int, k: int) -> None:
    both = (run.baseline(step, run.variants[k].dtype).top, run.top(step, k))
    found.same("number of lines of next tokens", len(page["next"]), len(both))
    for words, start, top in zip(page["next"], ("next, with context:", "patched:"), both, strict=False):
        parts: list[str | float] = [start] if top.texts else [f"{start} no number"]
        for text, share in zip(top.texts[:4], top.probabilities[:4].tolist(), strict=True):
            parts += [readable(text), float(share)]
        found.says("next tokens of the cell", words, *parts)
