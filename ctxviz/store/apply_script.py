"""A short Python script that gives an exported patch to the stock model, for people without ctxviz."""

from __future__ import annotations

from typing import Final

_TEXT_HEAD: Final = '''\
"""Write one token's patch into the stock model; it then says the next token without its context."""

import json

import torch
from safetensors import safe_open
from transformers import {loader}, AutoTokenizer
'''

_PICTURE_HEAD: Final = '''\
"""Write one token's patch into the stock model; it then says the next token without its context.

Where the patch leaves pictures in the input, give all the pictures of its context, in order: --image FILE ...
"""

import argparse
import hashlib
import io
import json

import torch
from PIL import Image, ImageOps
from safetensors import safe_open
from transformers import {loader}, AutoProcessor, AutoTokenizer
'''

_WRITE: Final = """
PATCH = {patch}
MODEL = {model}

with safe_open(PATCH, "pt") as file:
    about, parts = file.metadata(), {{name: file.get_tensor(name).double() for name in file.keys()}}
how = {{"attn_implementation": "sdpa", "use_safetensors": True}}
model = {loader}.from_pretrained(MODEL, dtype=about["dtype"], **how)
model = model.eval().requires_grad_(False)
for parameter in model.parameters():
    parameter.data = parameter.data.clone()  # needed: alignment can change a rounding
for name in sorted({{name.rpartition(".")[0] for name in parts}}):
    delta, left, right = (parts.get(f"{{name}}.{{part}}") for part in ("delta", "left", "right"))
    parameter = model.get_parameter(name)
    parameter.copy_(parameter.double() + (torch.outer(left, right) if delta is None else delta))
ids, positions = (torch.tensor([json.loads(about[key])]) for key in ("kept_ids", "kept_positions"))
"""

_LOOK: Final = """
kept, tiles, before = set(positions[0].tolist()), [], None
for position, token in enumerate(json.loads(about["context_ids"])):
    if token == model.config.image_token_id:
        if before != token:
            tiles.append([])
        tiles[-1].append(position in kept)
    before = token
if any(any(picture) and not all(picture) for picture in tiles):
    raise SystemExit("The patch keeps a part of a picture only; pixel_values gives a model whole pictures.")
looks = {{}}
if any(map(any, tiles)):
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", nargs="+", default=[], metavar="FILE")
    files = [open(name, "rb").read() for name in parser.parse_args().image]
    if [hashlib.sha256(data).hexdigest() for data in files] != json.loads(about["image_sha256"]):
        raise SystemExit("Give the context's own picture files, all and in their order: --image FILE ...")
    pictures = []
    for image in (ImageOps.exif_transpose(Image.open(io.BytesIO(data))) for data in files):
        if image.mode[0] in "IF":
            raise SystemExit("This script reads no pictures of over 8 bits of grey, and one of these is one.")
        alpha = image.convert("RGBA").getchannel("A") if image.has_transparency_data else None
        pictures.append(Image.new("RGB", image.size, "white"))
        solid = image.convert("RGBA") if alpha else image
        pictures[-1].paste(solid.convert("RGB"), (0, 0), alpha)
    shown = [picture for picture, where in zip(pictures, tiles, strict=True) if all(where)]
    reader = AutoProcessor.from_pretrained(MODEL).image_processor
    pixels = reader(images=shown, return_tensors="pt", do_pan_and_scan=False)["pixel_values"]
    types = (ids == model.config.image_token_id).int()
    looks = {{"pixel_values": pixels.to(model.dtype), "token_type_ids": types}}
"""

_RUN: Final = """\
given = {{"input_ids": ids, "position_ids": positions, "attention_mask": torch.ones_like(ids){looks}}}
with torch.no_grad():
    logits = model(**given).logits[0, -1]
print(repr(AutoTokenizer.from_pretrained(MODEL).decode([int(logits.argmax())])))
"""

_TEXT_SCRIPT: Final = _TEXT_HEAD + _WRITE + _RUN
_PICTURE_SCRIPT: Final = _PICTURE_HEAD + _WRITE + _LOOK + _RUN


def script(patch_file_name: str, model_reference: str, *, pictures: int = 0) -> str:
    """A script that needs torch, safetensors and transformers alone, and Pillow where there are pictures.

    It writes the patch into the model by P <- round(float64(P) + left (x) right), or + delta, runs the kept
    tokens, leaves the last token's ``logits`` [vocabulary] and prints the most probable next token. The
    logits are the written ones bit for bit on the machine and with the number of threads of the run, and
    because every parameter is cloned out of the mapped file into aligned memory: in the file's own memory
    sums can come in another order, which turns a direct patch into nothing. Where some pictures are kept and
    others folded, the vision tower reads fewer at once, which may round otherwise.

    Args:
        patch_file_name: of a ``ctxviz-patch/1`` file, as seen from where the script is run.
        model_reference: a model folder or a Hub id. Both names are quoted, whatever they hold.
        pictures: how many the context has. With any, the script loads the class that reads pictures; where
            image tokens are kept it wants the files (``--image FILE ...``), compares their sha256 with the
            patch's metadata, and refuses a patch that keeps a part of a picture.
    """
    text = _PICTURE_SCRIPT if pictures else _TEXT_SCRIPT
    return text.format(
        patch=repr(str(patch_file_name)),
        model=repr(str(model_reference)),
        loader="AutoModelForImageTextToText" if pictures else "AutoModelForCausalLM",
        looks=", **looks" if pictures else "",
    )
