"""Training of the shipped picture models on drawn scenes: ``python -m ctxviz train-tiny`` and ``train-eyes``."""
