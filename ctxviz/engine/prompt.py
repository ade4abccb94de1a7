"""From a prompt to the tokens the model reads, with every way it can be unusable told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ctxviz.engine.picture_prompt import compose, find_images
from ctxviz.engine.sight import BLIND, Sight
from ctxviz.errors import PromptError, SettingsError
from ctxviz.folds import Context, Fold, ImageSpan
from ctxviz.settings import RunSettings

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel
    from ctxviz.pictures import Picture

LONGEST_PIECE: Final = 64
"""Characters; a prompt of more than window x this many is refused before it is tokenised."""


def prepare(
    model: LoadedModel, prompt: str, settings: RunSettings, pictures: Sequence[Picture] = ()
) -> Context:
    """Tokenise and check.

    Raises:
        PromptError: empty, not valid text, only special tokens, or longer than the model's window; or its
            places for pictures are not as many as the pictures.
        PictureError: pictures for a model that reads text only.
        SettingsError: the fold or the first patched layer lies outside this prompt or model.
    """
    ids = tokenise(model, prompt, len(pictures))
    images = find_images(model, ids, len(pictures)) if pictures else ()
    room = model.window - len(ids)
    if room < settings.max_new_tokens:
        shorter = "shorten the prompt" + (f" or ask for at most {room} new tokens" if room > 0 else "")
        raise PromptError(
            f"The prompt has {len(ids)} tokens and {settings.max_new_tokens} more are asked for, "
            f"but the model's window is {model.window}; {shorter}."
        )
    if settings.first_layer >= model.n_layers:
        raise SettingsError(
            f"The first patched layer is {settings.first_layer}, "
            f"but the model's layers are 0 to {model.n_layers - 1}."
        )
    _check_fold(settings.fold, ids, images, model)
    pieces = tuple(model.piece(i) for i in ids)
    return Context(prompt, ids, pieces, settings.fold, tuple(p.sha256 for p in pictures), images)


def look(model: LoadedModel, pictures: Sequence[Picture], context: Context) -> Sight:
    """The pictures as the model's own image processor reads them, whole (no pan and scan)."""
    if not pictures:
        return BLIND
    assert model.processor is not None
    read = model.processor.image_processor(
        images=[picture.image for picture in pictures], return_tensors="pt", do_pan_and_scan=False
    )
    return Sight(read["pixel_values"], context.images)


def tokenise(model: LoadedModel, prompt: str, pictures: int = 0) -> tuple[int, ...]:
    """The prompt's token ids, BOS included where the model has one, with places for so many pictures.

    Raises:
        PromptError: empty, not valid text, far too long, or only special tokens; or with other places for
            pictures.
        PictureError: pictures for a model that reads text only.
    """
    if not prompt.strip():
        raise PromptError("The prompt is empty; type a sentence for the model to continue.")
    if "\0" in prompt:
        raise PromptError("The prompt contains a NUL character; remove it and try again.")
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PromptError(
            f"The prompt is not valid Unicode text: character {error.start + 1} is half of a surrogate pair; "
            "remove it."
        ) from None
    if len(prompt) > LONGEST_PIECE * model.window:
        raise PromptError(
            f"The prompt has {len(prompt)} characters, more than the model's window of {model.window} tokens "
            "can hold; shorten it."
        )
    text, has_bos = compose(model, prompt, pictures)
    read = model.tokenizer(text, verbose=False, add_special_tokens=not has_bos)["input_ids"]
    ids = tuple(int(i) for i in read)
    largest = max((i for i in ids if i != model.image_id), default=0)
    if largest >= model.vocabulary:
        raise PromptError(
            f"The tokenizer gives the prompt a token ({largest}) that the model's vocabulary of "
            f"{model.vocabulary} lacks; use the tokenizer that belongs to this model, or another prompt."
        )
    if all(i in model.special_ids for i in ids):
        raise PromptError("The prompt holds only special tokens; add some text for the model to continue.")
    if len(ids) < 2:
        raise PromptError(
            "The prompt is a single token, so there is no context to fold; add at least one word."
        )
    return ids


def _check_fold(fold: Fold, ids: tuple[int, ...], images: tuple[ImageSpan, ...], model: LoadedModel) -> None:
    bos_id = model.bos_id
    if fold.kind in ("image", "text") and not images:
        why = "This model reads text only" if model.processor is None else "The prompt has no picture"
        raise SettingsError(f"{why}, so the fold {fold} has no meaning; choose another fold.")
    if fold.number > len(images):
        known = "image:1" if len(images) == 1 else f"image:1 to image:{len(images)}"
        raise SettingsError(
            f"The fold {fold} names picture {fold.number}, but the prompt has {len(images)}; choose {known}."
        )
    if fold.kind == "all-but-bos" and (bos_id is None or ids[0] != bos_id):
        raise SettingsError(
            "The prompt does not begin with a BOS token, so all-but-bos has no meaning; fold all."
        )
    if fold.kind == "span" and fold.end > len(ids):
        raise SettingsError(
            f"The fold {fold} reaches past the prompt, whose {len(ids)} tokens have positions "
            f"0 to {len(ids) - 1}."
        )
    if not fold.folded(len(ids), images):
        raise SettingsError(
            f"The fold {fold} folds nothing, since the last token is always kept; "
            "choose a range that begins earlier."
        )
