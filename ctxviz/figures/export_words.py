"""What an exported patch and adapter are worth, in sentences that give the measured figures."""

from __future__ import annotations

from typing import Final

from ctxviz.exporting import ExportCheck, Trial
from ctxviz.figures.text import sci
from ctxviz.settings import RunSettings, Variant

FLOOR: Final = RunSettings().floor
MOVED: Final = "with the embeddings moved by one unit in the last place"
BITS: Final = (
    "it works bit for bit only: in parameters cloned to aligned memory, as the script does, with the same "
    "kernels, on the same machine, with the same number of threads"
)


def trial_words(check: ExportCheck, trial: Trial) -> str:
    """``TVD 3·10⁻⁶, the same token``."""
    token = (
        "the same token" if trial.match else "a tie's other token" if check.is_tie(trial) else "another token"
    )
    return f"TVD {sci(trial.tvd)}, {token}"


def patch_sentence(check: ExportCheck, variant: Variant) -> str:
    """What the patch file gives where it is written as the script writes it, here and elsewhere."""
    here, moved = trial_words(check, check.written), trial_words(check, check.written_moved)
    if not check.patch_carries:
        return (
            f"This patch, written as the script does, gives {here}: it does not carry its context; "
            f"{remedy(variant)}."
        )
    if not check.patch_survives:
        return (
            f"This patch, written as the script does, gives {here}, but {MOVED} {moved}. So {BITS}; for one "
            f"that survives, {remedy(variant)}."
        )
    return f"This patch, written as the script does: {here}; {MOVED}: {moved}."


def adapter_sentence(check: ExportCheck, variant: Variant) -> str:
    """What the adapter gives, or why there is none."""
    plain, moved = trial_words(check, check.adapter), trial_words(check, check.adapter_moved)
    if check.adapter_carries:
        return f"This adapter, run as PEFT runs it: {plain}; {MOVED}: {moved}."
    return (
        f"No PEFT adapter is offered: run as PEFT runs it, it gives {plain}, and {MOVED} {moved}, so it "
        f"does not carry its context; {remedy(variant)}."
    )


def script_needs(pictures: int) -> str:
    """What must be installed where the script is run, for a context with so many pictures."""
    if not pictures:
        return "The script needs torch, transformers and safetensors only."
    return "The script needs torch, transformers, safetensors and, since the context has pictures, Pillow."


def remedy(variant: Variant) -> str:
    """What to do about a patch or an adapter that fails, as the end of a sentence."""
    if variant.update != "floored":
        return f"make the run with floored (τ {FLOOR:g})"
    if variant.dtype in ("bfloat16", "float16"):
        return "make the run in float32"
    if variant.floor != FLOOR:
        return f"make the run with τ {FLOOR:g}"
    return "take another token's"
