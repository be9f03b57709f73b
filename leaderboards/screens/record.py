"""One record, in full."""

from __future__ import annotations

import streamlit as st

from core.amounts import amount
from leaderboards.screens import page
from leaderboards.screens.address import say, word_of_address, words
from leaderboards.tables.summaries import COMMITTED
from leaderboards.views import records
from leaderboards.views.links import in_app, to_record
from leaderboards.views.models import models

MOST = 200  # of the records that a search lists


def show() -> None:
    """The page of a record."""
    board = page.board()
    if not board.count("records"):
        page.text(title="Record", lead="These numbers are published ones: there are no records.")
        return
    wanted, origin = word_of_address("record"), word_of_address("origin") or ""
    found_record = records.record(board, wanted, origin) if wanted else None
    if wanted and found_record is None:
        of = f" of origin '{origin}'" if origin else ""
        say(f"There is no record '{wanted}'{of} on this board.")
    top = st.container()
    if _searched() and not wanted:
        with top:
            page.text(title="Records")
        return
    found_record = found_record or records.record(board, records.first_record_shown(board))
    assert found_record is not None
    page.show(records.record_page(found_record, models(board), in_app))


def _searched() -> bool:
    """A search over all records; whether anything was asked for."""
    sought = words("Search records", "find")
    if sought:
        matched = records.matching(page.board(), sought)
        if not matched:
            say("No record has all of these words.")
        more = f", the first {MOST} of them" if matched[MOST:] else ""
        record_links = []
        for run_id, origin in matched[:MOST]:
            label = run_id if origin == COMMITTED else f"{run_id} ({origin})"
            record_links.append((label, to_record(run_id, origin)))
        page.links(record_links, f"{amount(len(matched), 'record')}{more}:")
    return bool(sought)
