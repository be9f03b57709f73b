"""The first page."""

from __future__ import annotations

from leaderboards.screens import page
from leaderboards.views.overview import overview_page


def show() -> None:
    """One sentence, the bars and the matrix."""
    page.show([overview_page(page.board(), page.first_page())])
    page.text(page.described())
