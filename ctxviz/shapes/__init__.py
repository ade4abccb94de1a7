"""Drawn scenes of coloured shapes: what the shipped picture models read, and the page's samples."""
