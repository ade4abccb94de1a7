"""One token's patch to take away: the file, a script that applies it, and a PEFT adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from ctxviz.errors import BundleError
from ctxviz.exporting import ExportCheck, measured_metadata
from ctxviz.figures import export_words
from ctxviz.figures.palette import label
from ctxviz.figures.text import readable
from ctxviz.run import Run
from ctxviz.ui import messages, page
from ctxviz.ui.jobs import PatchFiles, PatchRequest
from ctxviz.ui.references import reference_of, reference_words
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
        f"The patch of token {step}, “{token}”, {name}, is built again from the run's recorded history with "
        f"{reference_words(run)}, and run as others will run it. A model with another checksum is refused, "
        "or, where either has none, one with another name or shape, and so is one that reads the prompt as "
        "other tokens.",
        "take",
    )
    reference = reference_of(run)
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
    elif view.state == "failed":
        messages.tell("error", view.message, "patch")
    elif view.state == "stopped":
        messages.tell(
            "note",
            "Stopped before the patch was built and measured; build it again to have its files.",
            "patch",
        )
    elif request.patch is not None and request.check is not None:
        _draw_files(request, request.patch, request.check)


def _draw_files(request: PatchRequest, patch: Rebuilt, check: ExportCheck) -> None:
    if request.files is None:
        request.files = _files(request.run, patch, check)
    files = request.files
    with st.container(horizontal=True, key="take-files"):
        _download("Patch (safetensors)", files.patch, files.name, "patch-file")
        _download("Script that applies it", files.script.encode(), SCRIPT_NAME, "patch-script")
    sentence = export_words.patch_sentence(check, patch.variant)
    if check.patch_survives:
        messages.hint(sentence, "take-patch")
    else:
        messages.tell("warning", sentence, "take-patch")
    if patch.variant.arithmetic == "factored":
        messages.hint(
            "This variant ran its patch beside the weights "
            f"({export_words.trial_words(check, check.built)}). The files write it into them.",
            "take-factored",
        )
    if files.adapter is None:
        messages.tell("warning", files.adapter_words, "take-adapter")
    else:
        name = f"{files.name.removesuffix('.safetensors')}-peft.zip"
        _download("PEFT adapter", files.adapter, name, "patch-peft")
        messages.hint(files.adapter_words, "take-adapter")
    messages.hint(
        "TVD against the model with its context, measured just now: 0 is the same distribution, 1 nothing in "
        f"common. {export_words.script_needs(len(request.run.context.images))} All of it belongs to this one "
        "token.",
        "take-files",
    )
    with st.expander("The script, to read", key="take-script"):
        st.code(files.script, language="python", wrap_lines=True)


def _files(run: Run, patch: Rebuilt, check: ExportCheck) -> PatchFiles:
    from ctxviz.store import patch_bytes, patch_file_name, script

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
        measured=measured_metadata(check),
    )
    made = script(name, patch.reference, pictures=len(run.context.images))
    return PatchFiles(name, data, made, *_adapter(run, patch, check))


def _adapter(run: Run, patch: Rebuilt, check: ExportCheck) -> tuple[bytes | None, str]:
    """The adapter's zip, unless it would not carry its context, and what to say of it."""
    from ctxviz.store import adapter_zip

    words = export_words.adapter_sentence(check, patch.variant)
    if not check.adapter_carries:
        return None, words
    try:
        made = adapter_zip(
            patch.patches,
            base_model=patch.reference,
            dtype=patch.variant.dtype,
            stored_scales=patch.stored_scales,
            kept_ids=patch.kept_ids,
            kept_positions=patch.kept_positions,
            images=run.context.images,
            check=check,
        )
    except BundleError as error:
        return None, str(error)
    return made, words


def _download(words: str, data: bytes, name: str, key: str) -> None:
    st.download_button(
        words, data=data, file_name=name, mime="application/octet-stream", on_click="ignore", key=key
    )
