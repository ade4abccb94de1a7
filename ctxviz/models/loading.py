"""Loading a model, once per dtype, and what the rest of the program may ask of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Final

import torch

from ctxviz import __version__
from ctxviz.errors import CtxvizError, MemoryRefusedError, ModelError, SettingsError, is_out_of_memory
from ctxviz.models import devices, memory, placement, processors
from ctxviz.models.architectures import Architecture, for_config
from ctxviz.models.folders import FolderFacts, inspect, read_configuration, read_json
from ctxviz.models.preparing import ReadyModel, estimate, prepare
from ctxviz.models.progress import Progress, silent
from ctxviz.models.quiet import quiet_transformers
from ctxviz.models.sources import reason, resolve, show
from ctxviz.records import ModelIdentity

MAX_THREADS: Final = 1024
_LOADING = RLock()
"""One load at a time in this process: two at once would need twice the room that was checked."""


def load_model(
    reference: str,
    *,
    dtypes: Sequence[str] = ("float32",),
    device: str = "auto",
    progress: Progress | None = None,
    threads: int | None = None,
) -> LoadedModel:
    """Load a model by catalogue key, Hub id ``org/name``, folder, or GGUF file.

    The first load of a packaged or GGUF model converts it into the cache. Other dtypes can be had later with
    :meth:`LoadedModel.in_dtype`. ``threads`` sets torch's CPU threads for the whole process.

    Raises:
        ModelError: unknown, broken, unsafe or unsupported model; a full or unwritable cache folder.
        ModelAccessError: a Hub model that cannot be fetched.
        MemoryRefusedError: it would not fit.
        SettingsError: unknown dtype, device, or number of threads.
    """
    progress = progress or silent
    chosen = devices.choose(device)
    for dtype in dtypes:
        devices.check_dtype(dtype, chosen)
    if threads is not None:
        if not 1 <= threads <= MAX_THREADS:
            raise SettingsError(f"{threads} threads cannot be used; choose 1 to {MAX_THREADS}.")
        torch.set_num_threads(threads)
    with _LOADING:
        source = resolve(reference)
        if source.entry is not None:
            # Before a download or conversion that would be in vain.
            memory.refuse_unless(estimate(reference, dtypes, devices.named(chosen)), dtypes)
        ready = prepare(source, progress)
        model = LoadedModel(ready, inspect(ready.folder), chosen, progress)
        model.hub_id = source.hub_id
        model.require_memory(dtypes)
        for dtype in dtypes:
            model.in_dtype(dtype, progress)
    return model


class LoadedModel:
    """A model on a device: its tokenizer, and stock transformers modules in the dtypes asked for so far.

    Parameters are never written by anyone: they carry no gradient, and the modules are in eval mode.
    """

    def __init__(
        self, ready: ReadyModel, facts: FolderFacts, chosen: devices.Devices, progress: Progress
    ) -> None:
        """Read configuration and tokenizer; weights are loaded by :meth:`in_dtype`."""
        from transformers import AutoConfig, AutoTokenizer, Gemma3Processor

        self.devices = chosen
        """Where weights may go, in the order in which the devices are tried."""
        self.hub_id: str | None = None
        self._ready = ready
        self._facts = facts
        self._models: dict[str, torch.nn.Module] = {}
        self._closed = False
        progress("reading the tokenizer", None)
        with quiet_transformers(), _explained(ready.title):
            config = AutoConfig.from_pretrained(ready.folder, local_files_only=True, trust_remote_code=False)
            self._config = config
            self.architecture: Architecture = for_config(config)
            reads_pictures = self.architecture.reads_pictures and processors.reads_pictures(
                ready.folder, read_configuration(ready.folder)
            )
            reader = Gemma3Processor if reads_pictures else AutoTokenizer
            read: Any = reader.from_pretrained(ready.folder, local_files_only=True, trust_remote_code=False)
            if reads_pictures:
                processors.require_image_tokens(read.tokenizer, config)
        self.processor: Any = read if reads_pictures else None
        """The stock processor of a model that reads pictures; None where only text can be read."""
        self.tokenizer: Any = read.tokenizer if reads_pictures else read
        self.image_id: int | None = config.image_token_id if self.architecture.reads_pictures else None
        """Of the token that stands for each tile of a picture."""
        text = self.architecture.text_config_of(config)
        self.window: int = text.max_position_embeddings
        self.n_layers: int = text.num_hidden_layers
        self.width: int = text.hidden_size
        self.vocabulary: int = text.vocab_size
        self.bos_id: int | None = self.tokenizer.bos_token_id
        self.eos_ids: frozenset[int] = _eos_ids(ready.folder, text, self.tokenizer)
        self.special_ids: frozenset[int] = frozenset(self.tokenizer.all_special_ids) | {
            i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special
        }
        self._places: dict[str, frozenset[torch.device]] = {}
        self.warnings: tuple[str, ...] = ()

    @property
    def identity(self) -> ModelIdentity:
        """As :meth:`identity_in` all dtypes loaded so far."""
        return self.identity_in(self.dtypes)

    def identity_in(self, dtypes: Sequence[str]) -> ModelIdentity:
        """Which weights, libraries, devices and threads; part of every record made in these dtypes."""
        import numpy
        import transformers

        used = frozenset().union(*(self._places.get(dtype, ()) for dtype in dtypes))
        return ModelIdentity(
            key=self._ready.key,
            name=self._ready.title,
            architecture=self.architecture.name,
            n_layers=self.n_layers,
            width=self.width,
            vocabulary=self.vocabulary,
            revision=self._ready.revision,
            sha256=self._ready.sha256,
            device=devices.named([d for d in self.devices if d in used] or self.devices[:1]),
            threads=torch.get_num_threads(),
            libraries=(
                ("ctxviz", __version__),
                ("torch", torch.__version__),
                ("transformers", transformers.__version__),
                ("numpy", numpy.__version__),
            ),
        )

    @property
    def stock_reference(self) -> str:
        """What stock transformers loads these weights by: a Hub id, or their folder on this machine."""
        return self.hub_id or str(self._ready.folder)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes loaded so far."""
        return tuple(self._models)

    def require_memory(self, dtypes: Sequence[str]) -> None:
        """Refuse before loading what would not fit.

        Raises:
            MemoryRefusedError: naming need, free memory and a remedy.
        """
        missing = [d for d in dtypes if d not in self._models]
        need = memory.need_of(self._facts.shape, missing)
        memory.refuse_unless(memory.MemoryNeed(need, memory.free_bytes(devices.named(self.devices))), missing)

    def in_dtype(self, name: str, progress: Progress | None = None) -> Any:
        """The stock transformers model in a dtype, on its devices; loaded on first use and then kept.

        Raises:
            SettingsError: unknown dtype, or not available on a device.
            MemoryRefusedError: it would not fit.
            ModelError: the weights are broken, or the model was closed.
        """
        dtype = devices.check_dtype(name, self.devices)
        with _LOADING:
            if self._closed:
                raise ModelError("This model was closed; load it again.")
            if name not in self._models:
                self.require_memory((name,))
                (progress or silent)(f"reading the weights in {name}", None)
                places = self._placed(dtype)
                self._models[name] = _load_weights(self._ready, dtype, places)
                self._places[name] = frozenset(places.values())
                if name == "float16":
                    self.warnings += (_FLOAT16_WARNING,)
            return self._models[name]

    def _placed(self, dtype: torch.dtype) -> placement.Places:
        """The device of each part; of one that is not to be trusted a warning is kept."""
        places: placement.Places = {"": self.devices[0]}
        if len(self.devices) > 1:
            with quiet_transformers(), _explained(self._ready.title):
                shape, layers = self._facts.shape, self.architecture.layers
                places = placement.share_out(self._config, layers, shape, dtype, self.devices)
        found = [devices.self_test(device) for device in self.devices if device in places.values()]
        self.warnings += tuple(warning for warning in found if warning and warning not in self.warnings)
        return places

    def piece(self, token_id: int) -> str:
        """A token as readable text, for any id: byte pieces stay ``<0xE2>``, an unknown id is ``<id N>``."""
        try:
            piece = self.tokenizer.convert_ids_to_tokens(int(token_id))
        except (OverflowError, IndexError, ValueError, TypeError):
            piece = None
        return f"<id {token_id}>" if piece is None else str(piece).replace("▁", " ")

    def close(self) -> None:
        """Let go of the weights; :meth:`in_dtype` then refuses."""
        with _LOADING:
            self._closed = True
            self._models.clear()
        if self.devices[0].type == "cuda":
            # A model is part of reference cycles; its memory is torch's to give back once they are gone.
            gc.collect()
            torch.cuda.empty_cache()


_FLOAT16_WARNING = (
    "float16 holds numbers up to 65504 only: Gemma 3's activations can exceed that and become infinite; "
    "prefer bfloat16."
)


def _load_weights(ready: ReadyModel, dtype: torch.dtype, places: dict[str, torch.device]) -> torch.nn.Module:
    from transformers import AutoModelForCausalLM

    on_cpu = places == {"": torch.device("cpu")}
    with quiet_transformers(), _explained(ready.title):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            ready.folder,
            dtype=dtype,
            # Straight to the devices, so that the CPU never holds the whole model for them.
            device_map=None if on_cpu else places,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            # Named here since a config.json may name a kernel to be fetched.
            attn_implementation="sdpa",
            # Reported below, in our own words.
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    model, info = loaded
    absent = sorted(info["missing_keys"]) + sorted(name for name, *_ in info["mismatched_keys"])
    if absent:
        # transformers would fill these with random numbers.
        raise ModelError(
            f"The weights of {show(ready.title)} lack {len(absent)} parameters or have them in another shape "
            f"({absent[0][:80]}); download or export the model again."
        )
    if on_cpu:
        _own(model)
    return model.eval().requires_grad_(False)


def _own(model: torch.nn.Module) -> None:
    """Copy parameters out of the mapped file.

    A file that is overwritten later would change or crash the loaded model, and a mapped matrix may begin at
    any multiple of 8 bytes, where a matrix product may round differently than at a multiple of 64.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns whatever transformers raises into a sentence."""
    try:
        yield
    except CtxvizError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryRefusedError(
                "There is not enough memory to load the model; choose a smaller dtype or model, "
                "or close other programs."
            ) from error
        raise ModelError(
            f"The model {show(name)} cannot be loaded ({reason(error)}); download or export it again."
        ) from error


def _eos_ids(folder: Path, text_config: Any, tokenizer: Any) -> frozenset[int]:
    path = folder / "generation_config.json"
    stated = [read_json(path).get("eos_token_id")] if path.exists() else []
    stated += [text_config.eos_token_id, tokenizer.eos_token_id]
    flat = [i for value in stated for i in (value if isinstance(value, list) else [value])]
    return frozenset(i for i in flat if isinstance(i, int))
