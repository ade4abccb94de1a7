"""Where a prompt's pictures go: the text that the tokenizer is given, and the places found in its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxviz.errors import ModelError, PictureError, PromptError
from ctxviz.folds import ImageSpan
from ctxviz.models.sources import reason

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel


def compose(model: LoadedModel, prompt: str, pictures: int) -> tuple[str, bool]:
    """The prompt in the model's chat template, each picture's image tokens in place; and whether it has BOS.

    A picture goes where the model's start-of-image token stands in the prompt, or first where none does. A
    prompt that begins with the BOS token is taken as it is, without a template. A model without a processor
    gets the prompt unchanged.

    Raises:
        PictureError: pictures for a model that reads text only.
        PromptError: an image token is typed by hand, or places and pictures are not equally many.
    """
    processor = model.processor
    if processor is None:
        if model.image_id is not None and model.piece(model.image_id) in prompt:
            raise PromptError(
                f"The prompt holds {model.piece(model.image_id)}, which stands for a part of a picture, and "
                "this model's folder has no processor to read pictures with; leave it out."
            )
        if pictures:
            raise PictureError(
                f"{model.identity.name} reads text only and cannot see a picture; choose a model that reads "
                "pictures, such as tiny-shapes, or leave the picture away."
            )
        return prompt, False
    place, image_token = processor.boi_token, processor.tokenizer.image_token
    for typed in (image_token, processor.tokenizer.eoi_token):
        if typed in prompt:
            raise PromptError(
                f"The prompt holds {typed}, which stands for a part of a picture and cannot be typed; "
                f"write {place} where a picture belongs, or nothing to put it first."
            )
    places = prompt.count(place)
    if places not in (0, pictures):
        raise PromptError(
            f"The prompt has {places} {_plural('place', places)} for pictures ({place}), and {pictures} "
            f"{_plural('picture', pictures)} {'is' if pictures == 1 else 'are'} given; make them equal, "
            f"or write no {place} to put the pictures first."
        )
    bos = model.tokenizer.bos_token
    if bos is not None and prompt.startswith(bos):
        text = prompt if places else bos + place * pictures + prompt.removeprefix(bos)
    elif processor.chat_template is None:
        text = prompt if places else place * pictures + prompt
    else:
        text = _in_template(processor, prompt if places else place * pictures + prompt)
    has_bos = bos is not None and text.startswith(bos)
    return text.replace(place, processor.full_image_sequence), has_bos


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _in_template(processor: Any, prompt: str) -> str:
    """The prompt as the user's turn, its places given to the template as pictures."""
    content: list[dict[str, str]] = []
    for index, part in enumerate(prompt.split(processor.boi_token)):
        if index:
            content.append({"type": "image"})
        if part.strip():
            content.append({"type": "text", "text": part})
    turn = [{"role": "user", "content": content}]
    try:
        return processor.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # whatever a model's own template raises
        raise ModelError(
            f"The model's chat template cannot be used ({reason(error)}); begin the prompt with "
            f"{processor.tokenizer.bos_token} to do without it."
        ) from None


def find_images(model: LoadedModel, ids: tuple[int, ...], pictures: int) -> tuple[ImageSpan, ...]:
    """The places of pictures among token ids: each a start token, the image tokens, an end token.

    Raises:
        ModelError: they are not as many as the pictures, or not as long as a picture is.
    """
    spans: list[ImageSpan] = []
    start: int | None = None
    for position, token in enumerate(ids):
        if token == model.image_id and start is None:
            start = position
        elif token != model.image_id and start is not None:
            spans.append(ImageSpan(start - 1, position + 1))
            start = None
    if len(spans) != pictures or any(len(s.tokens) != model.processor.image_seq_length for s in spans):
        raise ModelError(
            f"The model's chat template or tokenizer makes no place of its own for each of the {pictures} "
            "pictures; use the files that belong to the model."
        )
    return tuple(spans)
