"""The published claims: a table that filters, and one of them with all that it rests on."""

from __future__ import annotations

import streamlit as st

from leaderboards.contents import ClaimLine, OpenBoard
from leaderboards.render import PRESETS
from leaderboards.screens import page
from leaderboards.screens.address import is_on, one_of, say, word_of_address, words
from leaderboards.views.claims import (
    AT_FIRST,
    claim_page,
    counted,
    filtered,
    find,
    in_words,
    lines,
    tasks_of,
)
from leaderboards.views.links import claim_id, to_claim
from leaderboards.views.overview import IN_BAR

ANY = "any"


def show() -> None:
    """The page of the claims."""
    board = page.board()
    page.text(title="Claims")
    wanted = word_of_address("claim")
    if wanted is not None and (claim := find(board, wanted)):
        page.show([claim_page(board, claim)])
    elif wanted is not None:
        say(f"There is no claim '{wanted}' on this board.")
    all_presets = is_on("All presets, smoke too", "all")
    claims = board.claims() if all_presets else counted(board)
    shown_claims = _filtered(board, claims)
    page.text(lead=in_words(shown_claims) or "No claim has all of that.")
    state = page.grid(
        lines(shown_claims),
        "Published claims with their verdicts",
        AT_FIRST,
        key="claims",
        on_select="rerun",
        selection_mode="single-row",
    )
    picked = [shown_claims[place] for place in state.selection.rows if place < len(shown_claims)]
    if picked and claim_id(picked[0]) != wanted:
        st.query_params["claim"] = claim_id(picked[0])
        st.rerun()
    open_first = [claim for claim in shown_claims if claim.verdict == IN_BAR[0]]
    page.links([(claim.name, to_claim(claim)) for claim in open_first], "Contradicted:")


def _filtered(board: OpenBoard, claims: list[ClaimLine]) -> list[ClaimLine]:
    """The claims that the controls ask for."""
    first, second, third, fourth, fifth = st.columns([3, 2, 3, 3, 4])
    verdict = one_of("Verdict", [ANY, *IN_BAR], "verdict", ANY, first)
    preset = one_of("Preset", [ANY, *PRESETS], "preset", ANY, second)
    firsts = {claim.figure: claim for claim in board.claims()}
    figures = list(firsts)
    figure = one_of("Figure", [ANY, *figures], "figure", ANY, third)
    # The claims of a figure are judged from the same records.
    by_figure = {figure: tasks_of(claim) for figure, claim in firsts.items()}
    tasks = sorted(set().union(*by_figure.values()))
    task = one_of("Task", [ANY, *tasks], "task", ANY, fourth)
    matching = filtered(
        claims,
        verdict=_or_empty(verdict),
        preset=_or_empty(preset),
        figure=_or_empty(figure),
        search=words("Search", "find", fifth),
    )
    of_task = [c for c in matching if task == ANY or task in by_figure.get(c.figure, ())]
    return sorted(of_task, key=lambda claim: IN_BAR.index(claim.verdict))


def _or_empty(choice: str) -> str:
    return "" if choice == ANY else choice
