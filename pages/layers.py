"""The Layers page."""

from ctxviz.ui.layers_page import draw

draw()
