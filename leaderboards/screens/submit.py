"""How a row comes to the board, and how anybody checks one."""

from __future__ import annotations

import streamlit as st

from leaderboards.screens import page
from leaderboards.views.trust import explained

STEPS = (
    ("Run", "python -m bench.sweep tasks=regbench models=MODEL preset=laptop"),
    ("Look at it here, beside the others", "python -m leaderboards.build local=true"),
    ("Make it ready to be sent", "python -m leaderboards.add RECORD.json"),
    ("Check a row of somebody else", "python -m leaderboards.build --check"),
)


def show() -> None:
    """The page of submissions."""
    page.text(
        f"Levels of trust: {explained()}.",
        title="Submit",
        lead="A row is added by a pull request with its records. Everything in it is data: nothing "
        "of it is imported or run.",
    )
    for told, command in STEPS:
        st.text(told)
        st.code(command, language="bash", wrap_lines=True)
