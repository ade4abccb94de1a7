"""The command line: ``python -m ctxviz models | fetch | run | bench``.

Exit status: 0 success, 2 bad input or a failure that has a remedy (one sentence on stderr), 130 interrupted.
Anything else is a bug and shows its traceback. Torch is imported only by the commands that need it.
"""

from __future__ import annotations

from ctxviz.cli.commands import app, main

__all__ = ["app", "main"]
