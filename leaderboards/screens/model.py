"""One model: its card, every number of it, and the claims that its runs decide."""

from __future__ import annotations

import streamlit as st

from leaderboards.pages.claims import in_words
from leaderboards.pages.claims import lines as claim_lines
from leaderboards.pages.models import AT_FIRST, best_known, facts, lines, model, models
from leaderboards.screens import page
from leaderboards.screens.address import one_of


def show() -> None:
    """The page of a model."""
    board = page.board()
    known = models(board)
    if not known:
        page.text(title="Model", lead=page.NOTHING_OF_OURS)
        return
    left, _ = st.columns([3, 7])
    chosen = one_of("Model", sorted(known), "model", next(iter(known)), left)
    found = model(board, chosen)
    page.text(title=found.label, colour=found.colour, lead=best_known(found))
    page.draw("facts", facts=facts(found))
    page.text(heading="Every setting that was measured")
    page.grid(lines(board, found), f"Every number of {found.label}", AT_FIRST)
    if found.claims:
        page.text(in_words(found.claims), heading="Claims that its runs decide")
        order = ("verdict", "claim", "figure", "preset", "open")
        page.grid(claim_lines(found.claims), f"Claims on {found.label}", order)
