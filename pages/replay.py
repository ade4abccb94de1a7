"""The Replay page."""

from ctxviz.ui.replay_page import draw

draw()
