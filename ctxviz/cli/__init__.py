"""The command line: ``python -m ctxviz models | fetch | run | sweep | bench``.

Exit status: 0 success, 1 some cells of a sweep failed, 2 bad input or a failure that has a remedy (one
sentence on stderr), 3 an alarm of ``run --fail-on`` fired (one line on stderr), 130 interrupted. Anything
else is a bug and shows its traceback. Torch is imported only by the commands that need it.
"""

from __future__ import annotations

from ctxviz.cli.commands import app, main

__all__ = ["app", "main"]
