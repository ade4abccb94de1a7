"""A training run on disk: weights and optimizer as safetensors, progress and log as JSON; no pickle."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ctxviz.errors import SettingsError

STATE = "training-state.safetensors"
LOG = "training-log.jsonl"


class Checkpoint:
    """Where a training run is kept and taken up again."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        """``plan`` is what must be the same for the run to be continued."""
        self.folder = folder
        self.plan = json.dumps(plan, sort_keys=True)
        self._began, self._before = time.perf_counter(), 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            odd = [p.name for p in folder.iterdir() if p.exists() and not (p.is_file() or p.is_dir())]
        except OSError as error:
            raise SettingsError(f"The folder {str(folder)!r} cannot be made: {error.strerror}.") from None
        if odd:
            # Reading or writing it might wait for ever.
            raise SettingsError(
                f"{odd[0][:80]!r} in {str(folder)!r} is a device, a pipe or a socket; name another folder."
            )

    def load(
        self, modules: dict[str, nn.Module], optimizers: dict[str, torch.optim.Optimizer], most: int
    ) -> int:
        """Put the kept state into the modules and optimizers, and say how many steps were done; 0: none kept.

        ``most`` is how many steps there are. Lines of the log that were written after what was kept go.

        Raises:
            SettingsError: the folder holds another training run, or a damaged one.
        """
        path = self.folder / STATE
        if not path.exists():
            self._cut_log(0)
            return 0
        try:
            if not path.is_file():
                raise OSError
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
            if metadata.get("plan") == self.plan:
                steps = self._take(load_file(path), metadata, modules, optimizers)
                if not 0 < steps <= most:
                    raise ValueError
                self._cut_log(steps)
                return steps
        except (OSError, SafetensorError, RuntimeError, ValueError, KeyError):
            raise SettingsError(
                f"{STATE} in {str(self.folder)!r} is damaged; delete it to begin again."
            ) from None
        raise SettingsError(
            f"{str(self.folder)!r} holds another training run; choose another folder or delete it."
        )

    def _take(
        self,
        tensors: dict[str, Tensor],
        metadata: dict[str, str],
        modules: dict[str, nn.Module],
        optimizers: dict[str, torch.optim.Optimizer],
    ) -> int:
        for name, module in modules.items():
            module.load_state_dict(_below(tensors, name))
        for name, optimizer in optimizers.items():
            _load_optimizer(optimizer, _below(tensors, name))
        self._before = float(metadata.get("seconds", 0.0))
        return int(metadata["steps"])

    def _cut_log(self, steps: int) -> None:
        """Keep the lines of the log up to this step."""
        path = self.folder / LOG
        if not path.is_file():
            return
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text(
            "".join(line for line in lines if json.loads(line)["step"] <= steps), encoding="utf-8"
        )

    @property
    def seconds(self) -> float:
        """Spent on the training so far, earlier sittings included up to what they kept."""
        return self._before + time.perf_counter() - self._began

    def save(
        self, steps: int, modules: dict[str, nn.Module], optimizers: dict[str, torch.optim.Optimizer]
    ) -> None:
        """Keep the state after ``steps`` steps; the file is replaced in one go."""
        tensors: dict[str, Tensor] = {}
        for name, module in modules.items():
            tensors |= {f"{name}.{key}": value.clone() for key, value in module.state_dict().items()}
        for name, optimizer in optimizers.items():
            tensors |= {f"{name}.{key}": value for key, value in _optimizer_tensors(optimizer).items()}
        path = self.folder / STATE
        partial = path.with_suffix(".partial")
        about = {"plan": self.plan, "steps": str(steps), "seconds": f"{self.seconds:.1f}"}
        try:
            save_file(tensors, partial, about)
            os.replace(partial, path)
        except (OSError, SafetensorError):
            raise self._unwritable() from None

    def log(self, **row: Any) -> None:
        """Add a line to the training log."""
        try:
            with (self.folder / LOG).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError:
            raise self._unwritable() from None

    def _unwritable(self) -> SettingsError:
        return SettingsError(
            f"The training cannot be kept in {str(self.folder)!r}; make room there, or choose another folder."
        )


def _below(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {
        key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")
    }


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{index}.{key}": value.clone()
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
    }


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    described = optimizer.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": described["param_groups"]})
