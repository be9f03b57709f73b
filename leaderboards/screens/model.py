"""One model: its card, every number of it, and the claims that its runs decide."""

from __future__ import annotations

import streamlit as st

from leaderboards.screens import page
from leaderboards.screens.address import one_of
from leaderboards.views.links import in_app
from leaderboards.views.models import model, model_page, models


def show() -> None:
    """The page of a model."""
    board = page.board()
    labels = models(board)
    if not labels:
        page.text(title="Model", lead=page.NOTHING_OF_OURS)
        return
    left, _ = st.columns([3, 7])
    chosen = one_of("Model", sorted(labels), "model", next(iter(labels)), left)
    page.show(model_page(board, model(board, chosen), in_app))
