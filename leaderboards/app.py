"""The leaderboard's pages. They read a folder of Parquet files, and import no PyTorch.

``python -m leaderboards.serve`` starts them. Text from records is shown through templates that
escape it, or by elements that show plain text, never as Markdown.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

import streamlit as st

from core.errors import UserError
from leaderboards.screens import page
from leaderboards.screens.address import PAGE, say_strangers

# In the order of the menu, the one that opens first.
PAGES = ("overview", "task", "model", "compare", "claims", "cost", "record", "submit")


def main() -> None:
    """Draw the page that the address names."""
    st.set_page_config("Memory bench", layout="wide")
    menu = [
        st.Page(partial(show, name), title=name.title(), url_path=name, default=name == PAGES[0])
        for name in PAGES
    ]
    shown = st.navigation(menu, position="top")
    page.draw("style")
    try:
        board = page.board()
    except UserError as error:
        st.error("The board cannot be shown.")
        st.text(str(error))
        return
    if not board.tasks():
        st.text("The board holds no rows yet: train something, then build with local=true.")
        return
    shown.run()


def show(name: str) -> None:
    """A page, of which only a visit loads the libraries: the first one needs none for charts."""
    st.session_state[PAGE] = name
    top = st.container()
    import_module(f"leaderboards.screens.{name}").show()
    with top:
        say_strangers()


if __name__ == "__main__":
    main()
