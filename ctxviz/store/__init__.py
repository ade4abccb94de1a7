"""Runs and patches on disk: the ``.ctxviz`` bundle and the exported patch."""

from ctxviz.store.bundle import load_run, save_run
from ctxviz.store.patches import load_patch, patch_file_name, save_patch, write_patch

__all__ = ["load_patch", "load_run", "patch_file_name", "save_patch", "save_run", "write_patch"]
