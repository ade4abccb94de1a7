"""The Pictures page."""

from ctxviz.ui.pictures_page import draw

draw()
