"""One record, in full."""

from __future__ import annotations

import streamlit as st

from leaderboards.pages import records
from leaderboards.pages.links import to_claim, to_model, to_record, to_table
from leaderboards.screens import page
from leaderboards.screens.address import asked, say, words
from leaderboards.tables.summaries import COMMITTED

MOST = 200  # of the records that a search lists


def show() -> None:
    """The page of a record."""
    board = page.board()
    if not board.count("records"):
        page.text(title="Record", lead="These numbers are published ones: there are no records.")
        return
    wanted, origin = asked("record"), asked("origin") or ""
    found = records.record(board, wanted, origin) if wanted else None
    if wanted and found is None:
        of = f" of origin '{origin}'" if origin else ""
        say(f"There is no record '{wanted}'{of} on this board.")
    top = st.container()
    if _searched() and not wanted:
        with top:
            page.text(title="Records")
        return
    found = found or records.record(board, records.first(board))
    assert found is not None
    page.text(title=found.line.run_id)
    own = [("its model", to_model(found.line.model))]
    own += [("its table", to_table(found.row))] if found.row else []
    page.links(own)
    seeds = [(f"seed {one.seed}", to_record(one.run_id, one.origin)) for one in found.beside]
    page.links(seeds, "All seeds:")
    twins = [(f"the one that is {of}", to_record(found.line.run_id, of)) for of in found.others]
    page.links(twins, "The same run, made elsewhere:")
    left, right = st.columns(2)
    with left:
        page.draw("facts", facts=[*records.run_facts(found), *records.trust_facts(found)])
    with right:
        page.draw("facts", facts=records.provenance_facts(found.content))
    page.text(heading="How far it was checked")
    page.grid(records.seed_lines(found), "How far each seed of its row was checked")
    st.text("The command that made it")
    st.code(found.content["provenance"]["command"], language=None, wrap_lines=True)
    if found.replications:
        page.text(heading="Runs that repeat it, or that it repeats")
        page.grid(records.again_lines(found.replications), "Replications of this run")
        page.grid(records.machine_lines(found.replications), "Replications by machine")
    tried = records.study_lines(found.content)
    if tried:
        page.text(heading="Settings that its search tried")
        page.grid(tried, "Trials of the search")
    page.links([(claim.name, to_claim(claim)) for claim in found.claims], records.WHOSE_RUN)
    configuration, everything = st.columns(2)
    configuration.text("Configuration")
    configuration.json(found.content["config"], expanded=2)
    everything.text("The whole record, without curves and arrays")
    everything.json(dict(found.content), expanded=1)


def _searched() -> bool:
    """A search over all records; whether anything was asked for."""
    sought = words("Search records", "find")
    if sought:
        matched = records.matching(page.board(), sought)
        if not matched:
            say("No record has all of these words.")
        more = f", the first {MOST} of them" if matched[MOST:] else ""
        shown = [(_named(run_id, of), to_record(run_id, of)) for run_id, of in matched[:MOST]]
        page.links(shown, f"{len(matched)} {'record' if len(matched) == 1 else 'records'}{more}:")
    return bool(sought)


def _named(run_id: str, origin: str) -> str:
    """A record with its origin, where it is not committed."""
    return run_id if origin == COMMITTED else f"{run_id} ({origin})"
