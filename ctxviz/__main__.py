"""``python -m ctxviz``."""

import sys

from ctxviz.cli import main

sys.exit(main())
