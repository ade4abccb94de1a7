"""Training of the shipped picture models: ``python -m ctxviz train-tiny`` and ``train-eyes``."""
