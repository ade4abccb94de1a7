"""What every refusal of a model has in common."""

import pytest

from ctxviz.errors import CtxvizError, ModelError
from ctxviz.models import load_model


def refusal(reference: object, error: type[CtxvizError] = ModelError) -> str:
    """What loading says; one sentence, short, with something to do."""
    with pytest.raises(error) as caught:
        load_model(reference, device="cpu")  # type: ignore[arg-type]
    text = str(caught.value)
    assert len(text) < 500
    assert "\n" not in text
    assert text.endswith(".")
    assert ";" in text
    text.encode("utf-8")
    return text
