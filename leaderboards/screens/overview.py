"""The first page."""

from __future__ import annotations

from leaderboards.pages.abilities import described
from leaderboards.pages.links import to_model
from leaderboards.pages.overview import GROUPS
from leaderboards.screens import page


def show() -> None:
    """One sentence, the bars and the matrix."""
    page.draw(
        "overview",
        page=page.first_page(),
        about=described(),
        groups=GROUPS,
        to_model=to_model,
        digest=page.board().sha256,
    )
    page.text(page.described())
