"""The Compare page."""

from ctxviz.ui.compare_page import draw

draw()
