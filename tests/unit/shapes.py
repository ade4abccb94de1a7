"""Runs a module with the shapes and dtypes of its signatures checked at every call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

import jaxtyping
import pytest
from beartype import beartype


def shapes_checked(module: ModuleType) -> Iterator[None]:
    """Body of a fixture: wrap the module's own functions for as long as the fixture lives.

    The package does not need jaxtyping at run time, so the names in its annotations are supplied here.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("Bool", "Float", "Float32", "Float64", "Int32", "Int64"):
            patch.setattr(module, name, getattr(jaxtyping, name), raising=False)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__:
                patch.setattr(module, name, jaxtyping.jaxtyped(function, typechecker=beartype))
        yield
