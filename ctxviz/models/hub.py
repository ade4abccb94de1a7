"""Fetching a model from the Hugging Face Hub, and saying plainly why it cannot be had."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, Final

from ctxviz.errors import ModelAccessError, ModelError
from ctxviz.models.folders import read_configuration
from ctxviz.models.progress import Progress
from ctxviz.models.quiet import quiet_transformers
from ctxviz.models.sources import reason

_SMALL: Final = ("*.json", "*.jinja", "tokenizer.model")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def fetch(hub_id: str, progress: Progress) -> tuple[Path, str | None]:
    """Download a model's safetensors, configuration and tokenizer, or find them downloaded.

    The small files come first, so that an unsupported model is told before its weights are fetched.

    Returns:
        Its folder, and the commit it is.

    Raises:
        ModelAccessError: no token, licence not granted, no network, or no such repository.
        ModelError: an unsupported model, or no space left.
    """
    progress(f"looking for {hub_id} on the Hugging Face Hub", None)
    with _explained(hub_id):
        folder = _snapshot(hub_id, None, _SMALL, None)
    read_configuration(folder)
    commit = folder.name if _COMMIT.fullmatch(folder.name) else None
    with _explained(hub_id):
        folder = _snapshot(hub_id, commit, (*_SMALL, "*.safetensors"), progress)
    return folder, commit


def _snapshot(
    hub_id: str, revision: str | None, patterns: tuple[str, ...], progress: Progress | None
) -> Path:
    with quiet_transformers():
        import huggingface_hub

        return Path(
            huggingface_hub.snapshot_download(
                hub_id, revision=revision, allow_patterns=list(patterns), tqdm_class=_reporter(progress)
            )
        )


def is_downloaded(hub_id: str) -> bool:
    """Whether a model's configuration and weights are in the Hub's cache; touches no network."""
    return downloaded_folder(hub_id) is not None


def downloaded_folder(hub_id: str) -> Path | None:
    """Where a downloaded model lies in the Hub's cache, or None; touches no network."""
    import huggingface_hub

    names = ("model.safetensors", "model.safetensors.index.json")
    found = [huggingface_hub.try_to_load_from_cache(hub_id, name) for name in ("config.json", *names)]
    if isinstance(found[0], str) and any(isinstance(f, str) for f in found[1:]):
        return Path(found[0]).parent
    return None


def _reporter(progress: Progress | None) -> type:
    """A class like tqdm that tells the byte bar's progress to us and prints nothing."""
    from tqdm import tqdm

    class Reporter(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)
            kwargs |= {"disable": False, "file": StringIO()}
            self._bytes = kwargs.get("unit") == "B"
            super().__init__(*args, **kwargs)

        def close(self) -> None:
            # A bar is closed late, by the garbage collector, and would report once more.
            self.disable = True
            super().close()

        def display(self, *_: Any, **__: Any) -> None:
            if progress is not None and self._bytes and self.total:
                progress("downloading the model", min(1.0, self.n / self.total))

    return Reporter


@contextmanager
def _explained(hub_id: str) -> Iterator[None]:
    from huggingface_hub import errors

    page = f"https://huggingface.co/{hub_id}"
    try:
        yield
    except (errors.GatedRepoError, errors.LocalTokenNotFoundError) as error:
        raise ModelAccessError(_gated(hub_id, page, error)) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelAccessError(
            f"There is no model {hub_id} on the Hugging Face Hub that you may see; check its name at {page}, "
            "or log in with `hf auth login` if it is private."
        ) from error
    except errors.HFValidationError as error:
        raise ModelError(f"{hub_id!r} is not a name the Hub can have ({reason(error)}); check it.") from error
    except Exception as error:
        raise _failure(hub_id, error) from error


def _failure(hub_id: str, error: Exception) -> ModelError:
    from huggingface_hub import errors

    # What the Hub answered may be the cause of "not found on this machine either".
    answer = next((e for e in (error, error.__cause__) if isinstance(e, errors.HfHubHTTPError)), None)
    if answer is None and _is_network(error):
        return ModelAccessError(
            f"The Hugging Face Hub cannot be reached, and {hub_id} is not on this machine; "
            "check the network, or name a local folder or .gguf file."
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelError(
            f"There is no space left to download {hub_id}; free some, or set HF_HOME to another folder."
        )
    return ModelAccessError(
        f"{hub_id} cannot be fetched from the Hugging Face Hub ({reason(answer or error)}); "
        "try again later, or name a local folder."
    )


def _gated(hub_id: str, page: str, error: Exception) -> str:
    response = getattr(error, "response", None)
    if getattr(response, "status_code", None) == 403:
        return (
            f"The licence of {hub_id} is not granted to your account yet; accept it at {page} and load again."
        )
    return (
        f"{hub_id} needs a Hugging Face token, and there is none that is accepted; accept the licence at "
        f"{page}, make a token at https://huggingface.co/settings/tokens, and log in with `hf auth login`."
    )


def _is_network(error: BaseException) -> bool:
    from huggingface_hub import errors

    known = (errors.LocalEntryNotFoundError, errors.RevisionResolutionError, ConnectionError, TimeoutError)
    # The Hub client's HTTP library changes its name between versions; its errors share this base's name.
    return isinstance(error, known) or "TransportError" in {cls.__name__ for cls in type(error).__mro__}
