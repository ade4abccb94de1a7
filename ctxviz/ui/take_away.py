"""One token's patch to take away: the file, a script that applies it, and a PEFT adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from ctxviz.errors import BundleError
from ctxviz.figures.palette import label
from ctxviz.figures.text import readable
from ctxviz.run import Run
from ctxviz.ui import controls, messages, page
from ctxviz.ui.jobs import PatchFiles, PatchRequest
from ctxviz.ui.session import Session
from ctxviz.ui.views import ACTIVE

if TYPE_CHECKING:
    from ctxviz.engine import Rebuilt

SCRIPT_NAME = "apply_patch.py"


def draw(session: Session, run: Run, step: int, variant: int) -> None:
    """A button that has the patch built again, and what can be taken away once it is there."""
    messages.heading(2, "Take this token's patch away", "take-head")
    name = label(run.variants[variant], run.variants)
    token = readable(run.token(step)[4])
    messages.hint(
        f"The patch of token {step}, “{token}”, {name}, is built again from the recorded history with the "
        "model chosen on the Live page. A model with another checksum is refused, or, where either has none, "
        "one with another name or shape, and so is one that reads the prompt as other tokens.",
        "take",
    )
    reference = controls.chosen_model()
    st.button(
        f"Build the patch of token {step}",
        key="build_patch",
        on_click=page.attempt(lambda _: session.ask_for_patch(reference, step, variant)),
    )
    request = session.patch
    if request is None or (request.run, request.step, request.variant) != (run, step, variant):
        return
    view = request.view
    if view.state in ACTIVE:
        messages.hint(f"{view.stage or 'waiting for a turn'} …", "patch-stage")
        st.button("Stop", key="stop_patch", on_click=session.stop_patch)
        page.watch(view, view.state)
    elif view.state == "failed":
        messages.tell("error", view.message, "patch")
    elif view.state == "stopped":
        messages.tell(
            "note", "Stopped before the patch was built; build it again to have its files.", "patch"
        )
    elif request.patch is not None:
        _draw_files(request, request.patch)


def _draw_files(request: PatchRequest, patch: Rebuilt) -> None:
    if request.files is None:
        request.files = _files(request.run, patch)
    files = request.files
    with st.container(horizontal=True, key="take-files"):
        _download("Patch (safetensors)", files.patch, files.name, "patch-file")
        _download("Script that applies it", files.script.encode(), SCRIPT_NAME, "patch-script")
        name = f"{files.name.removesuffix('.safetensors')}-peft.zip"
        if isinstance(files.adapter, bytes):
            _download("PEFT adapter", files.adapter, name, "patch-peft")
    if isinstance(files.adapter, str):
        messages.hint(files.adapter, "take-no-adapter")
    if patch.variant.arithmetic == "factored":
        messages.hint(
            "This variant ran its patch beside the weights. The files write it into them, so their logits "
            "are close to this variant's and not the same.",
            "take-factored",
        )
    messages.hint(
        "The script needs torch, transformers and safetensors only. A PEFT adapter runs the matrices as side "
        "branches and holds the scale vectors as replaced weights; it cannot hold W′ as written, so its "
        "logits are close to ours but not bit for bit. All of it belongs to this one token.",
        "take-files",
    )
    st.code(files.script, language="python", wrap_lines=True)


def _files(run: Run, patch: Rebuilt) -> PatchFiles:
    from ctxviz.store import adapter_zip, patch_bytes, patch_file_name, script

    name = patch_file_name(patch.step, patch.variant)
    data = patch_bytes(
        patch.patches,
        model=run.model.key,
        dtype=patch.variant.dtype,
        step=patch.step,
        position=patch.position,
        context_ids=patch.context_ids,
        kept_ids=patch.kept_ids,
        kept_positions=patch.kept_positions,
        update=patch.variant.update,
        first_layer=patch.variant.first_layer,
        image_sha256=run.context.image_sha256,
    )
    images = run.context.images
    try:
        adapter = adapter_zip(
            patch.patches,
            base_model=patch.reference,
            dtype=patch.variant.dtype,
            stored_scales=patch.stored_scales,
            kept_ids=patch.kept_ids,
            kept_positions=patch.kept_positions,
            images=images,
        )
    except BundleError as error:
        adapter = str(error)
    return PatchFiles(name, data, script(name, patch.reference, pictures=len(images)), adapter)


def _download(words: str, data: bytes, name: str, key: str) -> None:
    st.download_button(
        words, data=data, file_name=name, mime="application/octet-stream", on_click="ignore", key=key
    )
