"""The command line: its contract with other programs, and what it says when it cannot go on."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

import ctxviz.engine
from ctxviz import bench
from ctxviz.alarms import KINDS, REPLAY_WORDS, find
from ctxviz.cli import inputs, main
from ctxviz.cli.terminal import visible
from ctxviz.errors import OutOfMemoryError
from ctxviz.records import Reference, Step
from ctxviz.run import Run
from ctxviz.settings import REPLAYS
from ctxviz.store import load_run
from ctxviz.store.files import write_whole
from tests.tiny_models import save_tiny_folder

ROOT = Path(__file__).parents[2]
PROMPT = "the robot and the dust"
TOKENS = 10
KEYS = [
    "step", "position", "token_id", "text", "next_token_id", "variant", "match", "tie", "tvd", "logit_linf",
    "kl", "unpatched_tvd", "noise_floor_tvd", "seconds", "layers", "replays", "eager_tvd", "float32_tvd",
    "float64_tvd",
    "ulp_tvd", "no_number",
]  # fmt: skip
VARIANT_KEYS = ["update", "arithmetic", "dtype", "first_layer"]
LAYER_KEYS = [
    "layer", "scale_ratio", "scale_max_abs", "h_abs_min", "h_argmin", "dead", "uncontrolled", "swallowed",
    "gate_ratio", "up_ratio", "down_ratio", "output_error", "no_number",
]  # fmt: skip
BENCH_KEYS = ["model", "dtype", "arithmetic", "update", "context", "stock_seconds", "seconds", "ratio"]


def call(*arguments: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the command line, run in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(argument) for argument in arguments])
    return status, *(stream.buffer.getvalue().decode("utf-8") for stream in (out, err))  # type: ignore[attr-defined]


def parse(text: str) -> list[dict[str, Any]]:
    """JSON lines, where NaN and infinity are no numbers."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def assert_refused(status: int, out: str, err: str, *fragments: str) -> None:
    """Exit 2, nothing on stdout, one sentence on stderr that holds the fragments."""
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert err.startswith("ctxviz: ")
    assert "Traceback" not in err
    for fragment in fragments:
        assert fragment in err


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny models are slower with several threads, the more so where others want the processor too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_folder(tmp_path_factory.mktemp("tiny")))


@dataclass(frozen=True)
class Made:
    """What one run with everything switched on left behind."""

    lines: list[dict[str, Any]]
    err: str
    patches: Path
    run: Run


@pytest.fixture(scope="module")
def made(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("made")
    arguments = ["run", "--model", tiny, "--prompt", PROMPT, "--max-new-tokens", TOKENS, "--first-layer", 1]
    arguments += [
        "--update",
        "direct",
        "--update",
        "stable",
        "--dtype",
        "bfloat16",
        "--dtype",
        "float32",
        "--json",
    ]
    status, out, err = call(
        *arguments, "--save", folder / "a.ctxviz", "--save-patches", folder / "new" / "patches"
    )
    assert status == 0
    return Made(parse(out), err, folder / "new" / "patches", load_run(folder / "a.ctxviz"))


def test_json_has_one_line_per_step_and_variant_and_exactly_the_keys_of_the_contract(made: Made) -> None:
    assert made.err == ""
    assert [line["step"] for line in made.lines] == [k for k in range(TOKENS) for _ in range(4)]
    for line in made.lines:
        assert list(line) == KEYS
        assert list(line["variant"]) == VARIANT_KEYS
        assert [list(layer) for layer in line["layers"]] == [LAYER_KEYS] * made.run.model.n_layers
        assert [layer["layer"] for layer in line["layers"]] == list(range(made.run.model.n_layers))
    variants = [(line["variant"]["dtype"], line["variant"]["update"]) for line in made.lines]
    assert variants[:4] == [(d, u) for d in ("float32", "bfloat16") for u in ("direct", "stable")]
    assert variants == variants[:4] * TOKENS


def test_json_numbers_are_finite_or_null_and_of_their_kind(made: Made) -> None:
    for line in made.lines:
        assert isinstance(line["match"], bool)
        assert isinstance(line["tie"], bool)
        for key in ("tvd", "logit_linf", "kl", "unpatched_tvd", "noise_floor_tvd", "seconds"):
            assert isinstance(line[key], float)
            assert math.isfinite(line[key])
        first, *patched = line["layers"]
        # Layer 0 is not patched; its output error needs no patch.
        known = {key for key, value in first.items() if value is not None}
        assert known == {"layer", "output_error", "no_number"}
        assert line["no_number"] == first["no_number"] == []
        for layer in patched:
            null = {key for key, value in layer.items() if value is None}
            assert null == ({"down_ratio"} if line["variant"]["update"] == "direct" else set())
            assert layer["no_number"] == []
            counts = ("h_argmin", "dead", "uncontrolled", "swallowed")
            assert all(isinstance(layer[key], int) and layer[key] >= 0 for key in counts)


def test_json_follows_the_text(made: Made) -> None:
    first = [line for line in made.lines if line["variant"] == made.lines[0]["variant"]]
    ids = made.run.context.token_ids
    assert (first[0]["position"], first[0]["token_id"]) == (len(ids) - 1, ids[-1])
    assert [line["position"] for line in first] == list(range(len(ids) - 1, len(ids) - 1 + TOKENS))
    assert [line["token_id"] for line in first[1:]] == [line["next_token_id"] for line in first[:-1]]
    assert first[0]["text"] == made.run.context.token_texts[-1]


def test_json_tells_patched_from_unpatched_and_carries_the_noise_floor(made: Made) -> None:
    exact = [line for line in made.lines if line["variant"]["dtype"] == "float32"]
    assert all(line["match"] and line["tvd"] < 1e-4 < line["unpatched_tvd"] for line in exact)
    floors = [line["noise_floor_tvd"] for line in exact[::2]]
    assert floors[2] == floors[3]
    assert floors[4] == floors[5] == floors[7]
    assert floors[8] == floors[9]
    assert len({floors[1], floors[2], floors[4], floors[8]}) > 1


def test_the_saved_run_holds_what_was_printed(made: Made) -> None:
    run = made.run
    assert (len(run), run.outcome) == (TOKENS, "finished")
    assert run.context.prompt == PROMPT
    for k in range(4):
        lines = made.lines[k::4]
        np.testing.assert_array_equal(run.series("tvd", k), [line["tvd"] for line in lines])
        ratios = [[layer["scale_ratio"] for layer in line["layers"]] for line in lines]
        np.testing.assert_array_equal(run.field("scale_ratio", k).T, np.array(ratios, np.float32))
    assert run.vectors(TOKENS - 1, 0) is not None


REPLAYED_TOKENS = 4


@pytest.fixture(scope="module")
def replayed(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Run]:
    """JSON lines and the run, with every replay, a held token and the error budget."""
    target = tmp_path_factory.mktemp("replayed") / "a.ctxviz"
    arguments = ["run", "--model", tiny, "--prompt", PROMPT, "--max-new-tokens", REPLAYED_TOKENS, "--json"]
    arguments += [part for kind in REPLAYS for part in ("--replay", kind)]
    arguments += ["--arithmetic", "written", "--arithmetic", "factored", "--dtype", "bfloat16"]
    status, out, err = call(*arguments, "--hold", 1, "--budget", "--save", target)
    assert (status, err) == (0, "")
    return parse(out), load_run(target)


def test_json_tells_replays_where_they_were_measured(replayed: tuple[list[dict[str, Any]], Run]) -> None:
    lines, run = replayed
    assert run.settings.replays == REPLAYS
    assert (run.settings.hold, run.settings.budget) == (1, True)
    for line in lines:
        assert list(line["replays"]) == [*REPLAYS, "held"]
        assert all(
            told is None or list(told) == ["match", "tvd", "shift"] for told in line["replays"].values()
        )
        step, written = line["step"], line["variant"]["arithmetic"] == "written"
        null = {kind for kind, told in line["replays"].items() if told is None}
        assert null == ((set() if step >= 1 else {"held"}) if written else {*REPLAYS, "held"})
        for kind in set(line["replays"]) - null:
            for metric in ("match", "tvd", "shift"):
                assert line["replays"][kind][metric] == run.replay(kind, metric, 0)[step]
    assert len(lines) == 2 * REPLAYED_TOKENS
    written = lines[::2]
    assert all(line["replays"]["same"] == {"match": True, "tvd": line["tvd"], "shift": 0} for line in written)
    assert all(line["replays"]["ulp"]["shift"] > 0 for line in written)
    assert isinstance(written[0]["replays"]["ulp"]["match"], bool)


def test_json_carries_the_error_budget(replayed: tuple[list[dict[str, Any]], Run], made: Made) -> None:
    lines, run = replayed
    for metric in ("eager_tvd", "float32_tvd", "float64_tvd", "ulp_tvd"):
        told = [line[metric] for line in lines[::2]]
        measured = run.reference(metric, "bfloat16")
        assert np.isfinite(measured).tolist() == [True, True, True, False], "measured with the noise floor"
        assert told == [*measured[:3], measured[2]]
        assert {line[metric] for line in made.lines} == {None}
    assert all(line["float32_tvd"] > 1e-5 for line in lines)
    assert {json.dumps(line["replays"]) for line in made.lines} == {"{}"}


def test_the_report_has_a_row_for_each_replay_that_was_measured(tiny: str) -> None:
    arguments = ("run", "--model", tiny, "--prompt", PROMPT, "--max-new-tokens", 2)
    out = call(*arguments, "--replay", "ulp", "--replay", "same")[1]
    rows = [line.strip() for line in out.splitlines() if "replayed" in line]
    assert [row.split("  ")[0] for row in rows] == [
        f"replayed, {REPLAY_WORDS[kind]}: TVD worst" for kind in ("same", "ulp")
    ]
    assert all(0 <= float(row.split()[-1]) < 1e-3 for row in rows)
    assert "replayed" not in call(*arguments)[1]


def test_an_alarm_that_should_not_fire_ends_the_run_with_3(tiny: str, tmp_path: Path) -> None:
    target = tmp_path / "a.ctxviz"
    arguments = ("run", "--model", tiny, "--prompt", PROMPT, "--max-new-tokens", TOKENS, "--json")
    arguments += (
        "--save",
        target,
        "--dtype",
        "bfloat16",
        "--fail-on",
        "uncontrolled",
        "--fail-on",
        "blow-up",
    )
    status, out, err = call(*arguments, "--update", "direct")
    run = load_run(target)
    assert (status, len(parse(out)), len(run), run.outcome) == (3, TOKENS, TOKENS, "finished")
    fired = find(run, ["blow-up"])
    first = min(fired, key=lambda alarm: alarm.step or 0)
    places = "1 place" if len(fired) == 1 else f"{len(fired)} places, first"
    assert err == f"ctxviz: Alarm blow-up in {places}: {first.sentence}\n"
    status, out, err = call(*arguments, "--update", "stable")
    assert (status, len(parse(out)), err) == (0, TOKENS, "")
    assert find(load_run(target), ["uncontrolled", "blow-up"]) == []


def test_a_replay_that_fails_is_an_alarm(tiny: str) -> None:
    arguments = (
        "run",
        "--model",
        tiny,
        "--prompt",
        PROMPT,
        "--max-new-tokens",
        3,
        "--fail-on",
        "replay-failure",
    )
    status, _, err = call(*arguments, "--update", "direct", "--dtype", "bfloat16", "--replay", "ulp")
    assert status == 3
    assert err.startswith("ctxviz: Alarm replay-failure in ")
    assert "run again (input moved by 1 ulp)" in err
    assert call(*arguments, "--replay", "ulp", "--replay", "same")[::2] == (0, "")


def test_one_patch_file_per_step_and_variant_with_names_of_the_stock_model(made: Made) -> None:
    files = sorted(made.patches.glob("*.safetensors"))
    assert len(files) == len(list(made.patches.iterdir())) == 4 * TOKENS
    stable = next(file for file in files if "stable" in file.name)
    keys = set(safetensors.numpy.load_file(stable))
    assert {"model.layers.1.mlp.down_proj.weight.left", "model.layers.1.mlp.gate_proj.weight.right"} <= keys
    assert "model.layers.3.post_feedforward_layernorm.weight.delta" in keys
    assert not any(".layers.0." in key for key in keys)


def test_readable_output_says_what_was_measured_and_obeys_nothing(tiny: str, tmp_path: Path) -> None:
    source = tmp_path / "prompt.txt"
    source.write_bytes("\ufeffthe [bold red]dust[/] \x1b[31m\u202e and é\n".encode())
    target = tmp_path / "run.ctxviz"
    target.write_text("something older")
    status, out, err = call(
        "run", "--model", tiny, "--prompt", f"@{source}", "--max-new-tokens", 2, "--save", target
    )
    assert (status, err) == (0, "")
    assert out.startswith("the [bold red]dust[/] \\x1b[31m\\u202e and é|")
    assert "\x1b" not in out
    for words in (
        "2 tokens, finished",
        "stable float32 written",
        "TVD, median",
        "noise floor",
        "2 of 2",
        "|h|",
    ):
        assert words in out
    run = load_run(target)
    assert run.context.prompt == "the [bold red]dust[/] \x1b[31m\u202e and é"


def test_visible_keeps_scripts_and_shows_controls() -> None:
    assert visible("日本 עברית a\u200d\u00a0b\n") == "日本 עברית a\u200d\u00a0b\n"
    assert visible("a\n\x07\u202e\ud800", keep="") == "a\\n\\x07\\u202e\\ud800"


BAD_PROMPTS: dict[str, tuple[str, str]] = {
    "empty": ("", "empty"),
    "blank": (" \n", "empty"),
    "NUL": ("a\0b", "NUL"),
    "lone surrogate": ("a\udc80b", "UTF-8"),
    "missing file": ("@/nonexistent/prompt.txt", "There is no prompt file"),
    "folder": ("@/", "is a folder"),
    "special tokens only": ("<bos><eos>", "special tokens"),
    "longer than the window": ("dust " * 300, "window"),
    "far longer than the window": ("dust " * 30_000, "window"),
}


@pytest.mark.parametrize("case", BAD_PROMPTS)
def test_prompts_that_cannot_be_used(case: str, tiny: str) -> None:
    prompt, fragment = BAD_PROMPTS[case]
    assert_refused(*call("run", "--model", tiny, "--prompt", prompt, "--json"), fragment)


def test_prompt_files_that_cannot_be_used(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "prompt"
    file.write_bytes(b"caf\xe9")
    assert_refused(*call("run", "--model", tiny, "--prompt", f"@{file}"), "UTF-8", str(file))
    monkeypatch.setattr(inputs, "PROMPT_LIMIT", 2**20)
    file.write_bytes(b"a" * (2**20 + 1))
    assert_refused(*call("run", "--model", tiny, "--prompt", f"@{file}"), "larger than 1 MiB")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "socket", "device", "became a pipe"])
def test_prompt_files_that_would_never_end(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = Path("prompt")
    if kind == "device":
        target.symlink_to("/dev/zero")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(target))
    elif kind == "link to a pipe":
        os.mkfifo("pipe")
        target.symlink_to("pipe")
    elif kind == "pipe":
        os.mkfifo(target)
    else:
        target.touch()
        status = target.stat()
        target.unlink()
        os.mkfifo(target)
        monkeypatch.setattr(Path, "stat", lambda *_, **__: status)
    arguments = ("run", "--model", "no-such-model", "--prompt", f"@{target}")
    assert_refused(*call(*arguments), "prompt file 'prompt' is a device, a pipe or a socket")


BAD_OPTIONS: dict[str, tuple[list[str], list[str]]] = {
    "rule": (["--update", "magic"], ["magic", "stable"]),
    "arithmetic": (["--arithmetic", "mental"], ["mental", "factored"]),
    "dtype": (["--dtype", "int8"], ["int8", "bfloat16"]),
    "rule twice": (["--update", "direct", "--update", "direct"], ["twice"]),
    "fold": (["--fold", "some"], ["START:END"]),
    "fold of nothing": (["--fold", "3:3"], ["folds nothing"]),
    "fold of the query only": (["--fold", "14:15"], ["folds nothing"]),
    "fold outside": (["--fold", "1:99"], ["reaches past the prompt"]),
    "fold of a picture": (["--fold", "image"], ["text only"]),
    "fold of a picture's text": (["--fold", "text"], ["text only"]),
    "first layer": (["--first-layer", "99"], ["0 to 3"]),
    "negative layer": (["--first-layer", "-1"], ["first patched layer"]),
    "floor": (["--update", "floored", "--floor", "0"], ["above 0"]),
    "floor not a number": (["--update", "floored", "--floor", "nan"], ["floor"]),
    "no tokens": (["--max-new-tokens", "0"], ["1 or more"]),
    "too many tokens": (["--max-new-tokens", "1000000"], ["window"]),
    "not a number": (["--max-new-tokens", "many"], ["--max-new-tokens"]),
    "threads": (["--threads", "0"], ["threads"]),
    "device": (["--device", "abacus"], ["abacus"]),
    "picture that is not there": (["--image", "x.png"], ["“x.png”", "does not exist"]),
    "pictures to keep without any": (["--keep-pictures"], ["no pictures to keep"]),
    "replay": (["--replay", "again"], ["again", "batch"]),
    "replay twice": (["--replay", "ulp", "--replay", "ulp"], ["twice"]),
    "held as a replay": (["--replay", "held"], ["held", "rounded"]),
    "hold before the first": (["--hold", "-1"], ["hold"]),
    "hold after the last": (["--max-new-tokens", "3", "--hold", "3"], ["Token 3", "run of 3"]),
    "alarm": (["--fail-on", "frob"], ["frob", *KINDS]),
    "alarm that could never fire": (["--fail-on", "replay-failure"], ["never fire", "--replay"]),
    "alarm of rounded weights": (["--replay", "rounded", "--fail-on", "replay-failure"], ["never fire"]),
    "overflow without float16": (["--fail-on", "near-overflow"], ["never fire", "float16"]),
    "swallowed where nothing is written": (
        ["--arithmetic", "factored", "--fail-on", "swallowed"],
        ["never fire", "written"],
    ),
    "replay of what is not written": (["--replay", "batch", "--arithmetic", "factored"], ["written"]),
    "alarm beside a known one": (["--fail-on", "tie", "--fail-on", "ties"], ["'ties'"]),
    "save into nowhere": (["--save", "/nonexistent/a.ctxviz"], ["does not exist"]),
    "save over a folder": (["--save", "/"], ["is a folder"]),
    "patches under a file": (["--save-patches", f"{__file__}/x"], ["cannot be made"]),
    "unknown option": (["--frobnicate"], ["--frobnicate"]),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_options_that_make_no_sense(case: str, tiny: str) -> None:
    options, fragments = BAD_OPTIONS[case]
    status, out, err = call("run", "--model", tiny, "--prompt", PROMPT, "--json", *options)
    assert_refused(status, out, err, *fragments)


def no_model(path: Path) -> Path:
    (path / "notes.txt").write_text("nothing")
    return path


def truncated_gguf(path: Path) -> Path:
    (path / "m.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    return path / "m.gguf"


def pickle_file(path: Path) -> Path:
    torch.save({}, path / "model.bin")
    return path / "model.bin"


def pickle_folder(path: Path) -> Path:
    save_tiny_folder(path)
    (path / "model.safetensors").unlink()
    torch.save({}, path / "pytorch_model.bin")
    return path


BAD_MODELS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "unknown name": (lambda _: Path("gpt-9"), "Unknown model"),
    "absent path": (lambda path: path / "nowhere", "no file or folder"),
    "not a model": (no_model, ""),
    "truncated GGUF": (truncated_gguf, "m.gguf"),
    "pickle file": (pickle_file, "pickle"),
    "pickle folder": (pickle_folder, "pickle"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_models_that_cannot_be_loaded(case: str, tmp_path: Path) -> None:
    make, fragment = BAD_MODELS[case]
    assert_refused(*call("run", "--model", make(tmp_path), "--prompt", PROMPT), fragment)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("run", "--model", "x"),
        ("frob",),
        ("fetch",),
        ("fetch", "gpt-9"),
        ("bench", "--tokens", "0"),
    ],
)
def test_commands_that_make_no_sense(arguments: tuple[str, ...]) -> None:
    assert_refused(*call(*arguments))


def test_a_failure_in_mid_run_keeps_what_was_made(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ctxviz.engine.stream

    class Failing:
        """The real stream until its fourth step, which does not fit into memory."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self._stream = real(*args, **options)
            self.context, self.pictures = self._stream.context, self._stream.pictures
            self.identity, self.reading = self._stream.identity, self._stream.reading

        def __iter__(self) -> Iterator[Step | Reference]:
            for item in self._stream:
                if isinstance(item, Step) and item.index == 3:
                    raise OutOfMemoryError("Memory ran out; choose fewer dtypes.")
                yield item

    monkeypatch.setattr(ctxviz.engine, "stream", Failing)
    target = tmp_path / "part.ctxviz"
    arguments = ("run", "--model", tiny, "--prompt", PROMPT, "--json", "--save", target)
    status, out, err = call(*arguments)
    assert (status, err) == (2, "ctxviz: Memory ran out; choose fewer dtypes.\n")
    assert [line["step"] for line in parse(out)] == [0, 1, 2]
    run = load_run(target)
    assert (len(run), run.outcome) == (3, "failed: Memory ran out; choose fewer dtypes.")
    # An alarm of what was made is told, but the failure decides.
    status, _, err = call(*arguments, "--update", "direct", "--dtype", "bfloat16", "--fail-on", "blow-up")
    assert (status, len(load_run(target))) == (2, 3)
    assert [line.split(":")[1].split(" in ")[0] for line in err.splitlines()] == [
        " Alarm blow-up",
        " Memory ran out; choose fewer dtypes.",
    ]
    monkeypatch.undo()
    status, out, _ = call(*arguments, "--max-new-tokens", 4)
    assert (status, len(parse(out)), len(load_run(target))) == (0, 4, 4)


def test_models_lists_the_catalogue() -> None:
    status, out, err = call("models")
    assert (status, err) == (0, "")
    for words in (
        "gemma-3-270m",
        "gemma-3-27b-it",
        "Gemma Terms of Use",
        "https://ai.google.dev/gemma/terms",
        "GB",
    ):
        assert words in out


def test_fetch_makes_a_model_ready(tiny: str) -> None:
    status, out, err = call("fetch", tiny)
    assert (status, err) == (0, "")
    assert "ready in " in out
    assert tiny in out


def test_a_folder_is_told_from_the_home_folder_on(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(Path(tiny).parent))
    assert call("fetch", tiny) == (0, f"{Path(tiny).name} is ready in ~/{Path(tiny).name}\n", "")


def test_models_says_where_a_ready_model_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxviz.cli.catalogue.ready_folder", lambda entry: tmp_path / entry.key)
    assert f"gemma-3-270m lies in {tmp_path / 'gemma-3-270m'}\n" in call("models")[1]


def test_a_missing_name_of_a_prompt_file(tiny: str) -> None:
    assert_refused(*call("run", "--model", tiny, "--prompt", "@"), "missing after @")


@pytest.fixture
def short_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "first_token_seconds", lambda *_: 1.5)
    monkeypatch.setattr(bench, "LATE", 12)
    monkeypatch.setattr(bench, "EARLY", 6)
    monkeypatch.setattr(bench, "AROUND", 1)


@pytest.mark.usefixtures("short_bench")
def test_bench_lines_have_exactly_the_keys_of_the_contract(tiny: str) -> None:
    status, out, err = call("bench", "--model", tiny, "--context", 16, "--tokens", 3, "--json")
    rows = parse(out)
    assert status == 0
    assert [list(row) for row in rows] == [BENCH_KEYS] * 10
    kinds = [("factored", "direct"), ("written", "direct"), ("written", "stable"), ("written", "floored")]
    found = [(row["dtype"], row["arithmetic"], row["update"]) for row in rows[:8]]
    assert found == [(dtype, *kind) for dtype in ("float32", "bfloat16") for kind in kinds]
    assert [row["context"] for row in rows] == [16] * 8 + [22, 28]
    for row in rows:
        assert row["ratio"] == row["seconds"] / row["stock_seconds"] > 0
    assert "resident" in err
    assert "1.5 s" in err


@pytest.mark.usefixtures("short_bench")
def test_bench_shows_targets_beside_ratios(tiny: str) -> None:
    status, out, err = call("bench", "--model", tiny, "--context", 16, "--tokens", 3)
    assert (status, err) == (0, "")
    for words in ("2.3", "3.5", "4.5", "resident", "token 12 against token 6"):
        assert words in out
    assert_refused(*call("bench", "--model", tiny, "--context", 300, "--tokens", 3), "window")


def process(*arguments: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
    """The command line as its own process, with signals as on a terminal whatever this process ignores."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL); signal.signal(signal.SIGHUP, signal.SIG_DFL);"
        "from ctxviz.cli import main; sys.exit(main())"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def test_ctrl_c_ends_with_130_and_keeps_the_run(tiny: str, tmp_path: Path) -> None:
    target = tmp_path / "stopped.ctxviz"
    arguments = (
        "run",
        "--model",
        tiny,
        "--prompt",
        PROMPT,
        "--max-new-tokens",
        "200",
        "--threads",
        "1",
        "--json",
    )
    with process(*arguments, "--save", str(target)) as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        rest, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert err == b"ctxviz: Interrupted.\n"
    lines = parse((first + rest).decode())
    run = load_run(target)
    assert run.outcome == "stopped"
    assert 0 < len(run) < 200
    assert [line["step"] for line in lines] == list(range(len(run)))
    assert all(line["unpatched_tvd"] is not None for line in lines)


def test_an_alarm_counts_in_a_run_that_is_stopped_too(tiny: str, tmp_path: Path) -> None:
    target = tmp_path / "stopped.ctxviz"
    arguments = ("run", "--model", tiny, "--prompt", PROMPT, "--max-new-tokens", "200", "--threads", "1")
    arguments += ("--update", "direct", "--dtype", "bfloat16", "--fail-on", "blow-up")
    with process(*arguments, "--json", "--save", str(target)) as running:
        assert running.stdout is not None
        for _ in range(TOKENS):
            running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=120)
    run = load_run(target)
    assert TOKENS <= len(run) < 200
    assert (running.returncode, run.outcome) == (3, "stopped")
    assert err.startswith(b"ctxviz: Alarm blow-up in ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_ended_keeps_the_run_too(tiny: str, tmp_path: Path, number: signal.Signals) -> None:
    target = tmp_path / "stopped.ctxviz"
    arguments = ("run", "--model", tiny, "--prompt", PROMPT, "--max-new-tokens", "200", "--threads", "1")
    with process(*arguments, "--json", "--save", str(target)) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(number)
        _, err = running.communicate(timeout=120)
    assert (running.returncode, err) == (128 + number, b"ctxviz: Interrupted.\n")
    run = load_run(target)
    assert run.outcome == "stopped"
    assert 0 < len(run) < 200


WRITERS = {
    "models": ("models",),
    "help": ("--help",),
    "version": ("--version",),
    "run": ("run",),
    "json": ("run", "--json"),
}


@pytest.mark.parametrize("case", WRITERS)
@pytest.mark.parametrize("redirection", [">&-", "> /dev/full"])
def test_output_that_cannot_be_written(case: str, redirection: str, tiny: str, tmp_path: Path) -> None:
    command, target = WRITERS[case], tmp_path / "kept.ctxviz"
    if command[0] == "run":
        command += ("--model", tiny, "--prompt", PROMPT, "--max-new-tokens", "2", "--threads", "1")
        command += ("--save", str(target))
    line = shlex.join([sys.executable, "-m", "ctxviz", *command])
    done = subprocess.run(["sh", "-c", f"{line} {redirection}"], cwd=ROOT, capture_output=True, timeout=120)
    assert_refused(done.returncode, done.stdout.decode(), done.stderr.decode(), "utput")
    if command[0] == "run" and redirection != ">&-":
        assert len(load_run(target)) > 0


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "link", "long"])
def test_run_files_that_must_not_be_replaced(
    kind: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = Path("it.ctxviz")
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(target))
    elif kind == "folder":
        target.mkdir()
    elif kind == "link":
        os.mkfifo("pipe")
        target.symlink_to("pipe")
    else:
        target = Path("x" * 300)
    before = target.lstat() if kind != "long" else None
    arguments = ("run", "--model", "no-such-model", "--prompt", PROMPT, "--save", target)
    assert_refused(*call(*arguments), "run file")
    with pytest.raises(OSError, match=r"not a regular file|too long"):
        write_whole(target, b"data")
    assert (target.lstat() if kind != "long" else None) == before


def test_a_run_that_cannot_be_saved_is_still_printed(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ctxviz.store.bundle.write_whole", full)
    target = tmp_path / "run.ctxviz"
    arguments = (
        "run",
        "--model",
        tiny,
        "--prompt",
        PROMPT,
        "--max-new-tokens",
        2,
        "--json",
        "--save",
        target,
    )
    status, out, err = call(*arguments)
    assert (status, len(parse(out)), len(err.splitlines())) == (2, 2, 1)
    assert "No space left on device" in err
    # A name that is as long as may be.
    monkeypatch.undo()
    target = tmp_path / ("é" * 120 + ".ctxviz")
    assert call(*arguments[:-1], target)[0] == 0
    assert len(load_run(target)) == 2


def test_a_reader_that_has_enough_ends_it_quietly(tiny: str) -> None:
    arguments = (
        "run",
        "--model",
        tiny,
        "--prompt",
        PROMPT,
        "--max-new-tokens",
        "200",
        "--threads",
        "1",
        "--json",
    )
    with process(*arguments) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        err = running.stderr.read()
        running.wait(timeout=120)
    assert (running.returncode, err) == (0, b"")


def test_a_terminal_without_unicode_and_an_argument_that_is_no_text(tiny: str) -> None:
    ascii_only = os.environ | {
        "LC_ALL": "C",
        "PYTHONIOENCODING": "ascii",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    arguments = ("run", "--model", tiny, "--max-new-tokens", "1", "--threads", "1", "--prompt")
    with process(*arguments, "the dust é", env=ascii_only) as running:
        out, err = running.communicate(timeout=120)
    assert (running.returncode, err) == (0, b"")
    assert out.startswith(rb"the dust \xe9|")
    assert b"1 token, finished" in out
    for prompt, fragment in ((b"caf\xe9", "UTF-8"), (b"dust " * 300, "window")):
        with process(*arguments, prompt) as running:
            out, err = running.communicate(timeout=120)
        assert_refused(running.returncode, out.decode(), err.decode(), fragment)
