"""The Live page: a prompt becomes weight patches, token by token."""

from ctxviz.ui.live_page import draw

draw()
