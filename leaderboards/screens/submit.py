"""How a row comes to the board, and how anybody checks one."""

from __future__ import annotations

import streamlit as st

from leaderboards.screens import page
from leaderboards.views.trust import explained

SUBMIT = (
    "python -m leaderboards.submit RUN_ID to=FOLDER who=NAME contact=ADDRESS licence=NAME "
    "training_data=WORDS contamination=WORDS"
)
STEPS = (
    ("Run", "python -m bench.sweep tasks=regbench models=MODEL preset=laptop"),
    ("Look at your rows beside the others", "python -m leaderboards.build local=true"),
    ("Write the folder that is sent as a pull request", SUBMIT),
    ("Check a row, or what somebody sent", "python -m leaderboards.verify RUN_ID"),
)


def show() -> None:
    """The page of submissions."""
    page.text(
        f"Levels of trust: {explained()}.",
        title="Submit",
        lead="A row is added by a pull request with its records; docs/submit.md tells all of it. "
        "Everything that is sent is data: nothing of it is imported or executed.",
    )
    for step, command in STEPS:
        st.text(step)
        st.code(command, language="bash", wrap_lines=True)
