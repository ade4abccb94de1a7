"""Drawn scenes of coloured shapes: what the shipped picture models were trained on, and the page's samples."""
