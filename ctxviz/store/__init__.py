"""Runs and patches on disk: the ``.ctxviz`` bundle, the exported patch, and what others can load of it."""

from ctxviz.store.apply_script import script
from ctxviz.store.bundle import load_description, load_run, save_run
from ctxviz.store.patches import load_patch, patch_bytes, patch_file_name, save_patch, write_patch
from ctxviz.store.peft_adapter import adapter_files, adapter_zip
from ctxviz.store.stored_pictures import check_pictures

__all__ = [
    "adapter_files",
    "adapter_zip",
    "check_pictures",
    "load_description",
    "load_patch",
    "load_run",
    "patch_bytes",
    "patch_file_name",
    "save_patch",
    "save_run",
    "script",
    "write_patch",
]
