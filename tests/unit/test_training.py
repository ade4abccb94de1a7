"""The trainers: they can be continued, keep their promises about what is held out, and examine honestly."""

from __future__ import annotations

import itertools
import json
import os

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ctxviz.errors import SettingsError
from ctxviz.shapes.scenes import DESCRIBE, Scene, Thing, is_held_out, training_crowd, training_scene
from ctxviz.training import exam
from ctxviz.training.batches import IGNORED, Asked, draw_all, draw_crowds, grid_labels, read_pictures
from ctxviz.training.checkpoint import LOG, STATE, Checkpoint
from ctxviz.training.looking import LookingPlan
from ctxviz.training.schedule import advance, make_optimizer, schedule
from ctxviz.training.tiny_shapes import SPREADS, make_model, make_processor, post_mlp_scale
from ctxviz.training.train_tiny import Plan, encode_for, train

LOGGED = Plan(LookingPlan(seed=3, steps=30, pictures=1), steps=1, scenes=1)
SMALL = Plan(LookingPlan(seed=3, steps=3, pictures=2), steps=3, scenes=2)


@pytest.fixture(scope="module")
def processor():
    return make_processor()


def silent(*_):
    pass


class StoppedError(Exception):
    pass


def stop_after(steps):
    def report(done, *_):
        if done == steps:
            raise StoppedError

    return report


@pytest.mark.parametrize("cut", [2, 4])
def test_a_training_that_was_interrupted_ends_like_one_that_was_not(tmp_path, cut):
    whole, _ = train(SMALL, tmp_path / "whole", silent, keep_every=1)
    with pytest.raises(StoppedError):
        train(SMALL, tmp_path / "cut", stop_after(cut), keep_every=1)
    again, _ = train(SMALL, tmp_path / "cut", silent, keep_every=1)
    begun = make_model(3).state_dict()
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    assert not torch.equal(whole.state_dict()["lm_head.weight"], begun["lm_head.weight"])


def test_another_plan_does_not_continue_it(tmp_path):
    Checkpoint(tmp_path, {"seed": 1}).save(1, {}, {"none": make_optimizer([(torch.nn.Linear(2, 2), 1)], 0)})
    with pytest.raises(SettingsError, match="another training run"):
        Checkpoint(tmp_path, {"seed": 2}).load({}, {}, 9)


@pytest.mark.parametrize(
    "damage",
    [b"", b"garbage", "tensor missing", "stray tensor", {"steps": "x"}, {"steps": "-5"}, {"steps": "99"}],
)
def test_a_damaged_state_is_told(tmp_path, damage):
    model = torch.nn.Linear(2, 2)
    checkpoint = Checkpoint(tmp_path, {})
    state = tmp_path / STATE
    about = {"plan": "{}", "steps": "3"}
    tensors = {"model.weight": model.weight.detach(), "model.bias": model.bias.detach()}
    if isinstance(damage, bytes):
        state.write_bytes(damage)
    elif damage == "tensor missing":
        save_file({"model.weight": tensors["model.weight"]}, state, about)
    elif damage == "stray tensor":
        save_file(tensors | {"speaking.x.y": torch.zeros(1)}, state, about)
    else:
        save_file(tensors, state, about | damage)
    with pytest.raises(SettingsError, match="is damaged"):
        checkpoint.load({"model": model}, {"speaking": make_optimizer([(model, 1.0)], 0.0)}, 9)


def test_lines_logged_after_what_was_kept_go(tmp_path):
    with pytest.raises(StoppedError):
        train(LOGGED, tmp_path, stop_after(21), keep_every=100)
    assert (tmp_path / LOG).read_text()
    with pytest.raises(StoppedError):
        train(LOGGED, tmp_path, stop_after(21), keep_every=100)
    assert len((tmp_path / LOG).read_text().splitlines()) == 1


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / LOG).mkdir()
    with pytest.raises(SettingsError, match="cannot be kept"):
        Checkpoint(tmp_path, {}).log(step=1)
    (tmp_path / STATE).with_suffix(".partial").mkdir()
    with pytest.raises(SettingsError, match="cannot be kept"):
        Checkpoint(tmp_path, {}).save(1, {"model": torch.nn.Linear(1, 1)}, {})


def test_the_log_is_one_json_object_a_line(tmp_path):
    checkpoint = Checkpoint(tmp_path, {})
    checkpoint.log(step=1, loss=2.0)
    checkpoint.log(step=2, loss=1.0)
    rows = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert rows == [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}]


def test_the_post_mlp_scales_are_not_trained(tmp_path):
    model, _ = train(SMALL, tmp_path, silent)
    first = make_model(3)
    for trained, begun in zip(
        model.model.language_model.layers, first.model.language_model.layers, strict=True
    ):
        ours, theirs = (layer.post_feedforward_layernorm.weight for layer in (trained, begun))
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("spread", SPREADS)
def test_scales_have_the_spread_they_are_given(spread):
    scale = post_mlp_scale(spread, np.random.default_rng(0))
    sizes = np.sort(np.abs(scale))
    assert (scale == 0).sum() == 1
    assert (scale < 0).sum() == 2
    assert sizes[64] == pytest.approx(0.25, rel=0.05)
    assert sizes[-1] == pytest.approx(0.25 * spread[-1], rel=0.1)


def test_nothing_held_out_is_ever_shown():
    generator = np.random.default_rng(0)
    assert not any(is_held_out(training_scene(generator)) for _ in range(500))
    for _ in range(100):
        crowd = training_crowd(generator, 7)
        assert len({thing.place for thing in crowd}) == 7
        pairs = [(a, b) for i, a in enumerate(crowd) for b in crowd[:i]]
        assert not any(is_held_out(Scene(pair)) for pair in pairs)


def test_a_tile_is_labelled_with_its_nearest_thing():
    things = (Thing(0, "red", "circle"), Thing(8, "blue", "ring"))
    _, drawn = draw_crowds([(things, "white")], np.random.default_rng(0))
    colours, shapes = (grid[0].view(4, 4) for grid in grid_labels(drawn, 4, 0.06))
    assert (colours[0, 0], shapes[0, 0]) == (1, 1)
    assert (colours[3, 3], shapes[3, 3]) == (5, 6)
    assert (colours[0, 3], shapes[0, 3]) == (0, 0)


def test_lines_are_those_of_the_stock_processor(processor):
    asked = Asked(0, "What colour is the ring?", "blue")
    lines = encode_for(processor)([asked])
    content = [{"type": "image"}, {"type": "text", "text": asked.question}]
    text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    picture = draw_all([Scene((Thing(0, "blue", "ring"),))], np.random.default_rng(0))[0]
    stock = processor(text=[text], images=[picture], return_tensors="pt", add_special_tokens=False)
    prompt = stock["input_ids"].shape[1]
    assert torch.equal(lines.ids[:, :prompt], stock["input_ids"])
    assert torch.equal(lines.types[:, :prompt].long(), stock["token_type_ids"].long())
    assert (lines.labels[:, :prompt] == IGNORED).all()
    assert processor.decode(lines.labels[0, prompt:]) == "blue<end_of_turn>"


def test_a_right_answer_is_what_greedy_decoding_gives(processor):
    """An untrained model's own greedy answers are right, and no others are."""
    model = make_model(0).eval()
    scenes = [training_scene(np.random.default_rng(k)) for k in range(3)]
    pixels = read_pictures(draw_all(scenes, np.random.default_rng(0))[0], processor.image_processor)
    lines = encode_for(processor)([Asked(k, DESCRIBE, "red") for k in range(3)])
    prompt = int((lines.labels[0] == IGNORED).sum())
    kwargs = {"token_type_ids": lines.types[:, :prompt], "max_new_tokens": 2, "min_new_tokens": 2}
    said = model.generate(lines.ids[:, :prompt], pixel_values=pixels, do_sample=False, **kwargs)
    ids = lines.ids.clone()
    ids[:, prompt:] = said[:, prompt : ids.shape[1]]
    labels = torch.where(lines.labels == IGNORED, IGNORED, ids)
    own = type(lines)(ids, lines.types, labels, lines.pictures)
    assert exam.answered_right(model, own, pixels) == [True] * 3
    assert exam.answered_right(model, lines, pixels) == [False] * 3


def test_a_part_trains_at_its_share_of_the_rate():
    slow, fast = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    before = [p.weight.detach().clone() for p in (slow, fast)]
    both = torch.nn.ModuleList([slow, fast])
    optimizer = make_optimizer([(slow, 0.25), (both, 1.0)], 0.0)
    advance(optimizer, sum(p.weight.sum() for p in (slow, fast)), 0.1)
    moves = [(p.weight - b).abs().mean().item() for p, b in zip((slow, fast), before, strict=True)]
    assert moves == pytest.approx([0.025, 0.1], rel=1e-3)


def test_the_rate_rises_and_falls():
    rates = [schedule(share) for share in np.linspace(0, 1, 101)]
    assert max(rates) > 0.95
    assert rates[0] < 0.05
    assert rates[-1] == pytest.approx(0.02)
    assert all(a > b for a, b in itertools.pairwise(rates[5:]))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [LOG, STATE, "training-state.partial", "config.json"])
def test_a_folder_with_a_pipe_in_it_is_told_and_nothing_waits_for_it(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(SettingsError, match="a pipe or a socket; name another folder"):
        Checkpoint(tmp_path, {})
