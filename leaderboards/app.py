"""The leaderboard's pages. They read one Parquet file, and import neither PyTorch nor its friends.

``python -m leaderboards.serve`` starts them. Text from records is shown through templates that
escape it, or by elements that show plain text, never as Markdown.
"""

from __future__ import annotations

import streamlit as st

from ground.errors import UserError
from leaderboards.screens import (
    claims,
    compare,
    cost,
    model,
    overview,
    page,
    record,
    submit,
    task,
)

PAGES = {
    "overview": overview,
    "task": task,
    "model": model,
    "compare": compare,
    "claims": claims,
    "cost": cost,
    "record": record,
    "submit": submit,
}


def main() -> None:
    """Draw the page that the address names."""
    st.set_page_config("Memory bench", layout="wide")
    shown = st.navigation(
        [
            st.Page(own.show, title=name.title(), url_path=name, default=own is overview)
            for name, own in PAGES.items()
        ],
        position="top",
    )
    page.draw("style")
    try:
        board = page.board()
    except UserError as error:
        st.error("The board cannot be shown.")
        st.text(str(error))
        return
    if not board.rows:
        st.text("The board holds no rows yet: train something, then build with local=true.")
        return
    shown.run()


if __name__ == "__main__":
    main()
