"""The pages of the overview, of models, claims and records, by the functions that the app uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from leaderboards.contents import ClaimLine, OpenBoard
from leaderboards.pages import claims as claimed
from leaderboards.pages import models as modelled
from leaderboards.pages import records as recorded
from leaderboards.pages.abilities import described
from leaderboards.pages.figures import figures_of
from leaderboards.pages.links import claim_id, link, to_claim, to_model, to_record, to_table
from leaderboards.pages.overview import GROUPS, Overview
from leaderboards.render import task_label
from leaderboards.site.addresses import (
    CLAIMS,
    OVERVIEW,
    RECORDS,
    badge,
    claim_page,
    from_page,
    model_page,
    record_page,
    slug,
    task_page,
)
from leaderboards.site.parts import Item, Page, code, items, links, part, table, text
from leaderboards.site.parts import badge as shown_badge


def overview_page(
    board: OpenBoard, made: Overview, tasks: Sequence[str], models: Sequence[tuple[str, str]]
) -> Page:
    """The first page, with lists of all others.

    Args:
        models: names and labels.
    """
    place = OVERVIEW
    first = part(
        place,
        "overview",
        page=made,
        about=described(),
        groups=GROUPS,
        to_model=to_model,
        digest=board.sha256,
    )
    shown = sorted(((task_label(task), task_page(task), "") for task in tasks), key=_by_name)
    also = [(label, model_page(name), "") for name, label in models]
    files: list[Item] = [
        ("CITATION.cff", "CITATION.cff", "of the project, with the hash of this board"),
        ("board.bib", "board.bib", "BibTeX of the whole board"),
        ("export.json", "export.json", "every file of this site with its hash"),
    ]
    told = (
        "Each table has its own LaTeX and BibTeX on the page of its task, and each task its rows."
    )
    parts = (
        first,
        items(place, "tasks", "Tasks", shown),
        items(place, "models", "Models", also),
        items(place, "cite", "To cite", files, told, f"The board has the hash {board.sha256}."),
    )
    return Page(place, "Memory bench", parts)


def _by_name(item: Item) -> str:
    return item[0].lower()


def model_pages(board: OpenBoard, name: str) -> Page:
    """All that is known of one model."""
    place, found = model_page(name), modelled.model(board, name)
    parts = [
        text(place, title=found.label, colour=found.colour, lead=modelled.best_known(found)),
        part(place, "facts", facts=modelled.facts(found)),
    ]
    if found.rows:
        own = modelled.lines(board, found, from_page(place))
        parts.append(table(place, "Every setting that was measured", own, modelled.AT_FIRST))
    if found.claims:
        lead, own = claimed.in_words(found.claims), claimed.lines(found.claims, from_page(place))
        heading = "Claims that its runs decide"
        parts.append(table(place, heading, own, claimed.AT_FIRST, lead=lead))
    parts.append(shown_badge(place, badge("models", name), found.label))
    return Page(place, found.label, tuple(parts))


def claims_page(board: OpenBoard, made: Overview) -> Page:
    """Every claim by verdict, the contradicted first, then every one by figure and preset."""
    place, known = CLAIMS, claimed.counted(board)
    parts = [text(place, title="Claims", lead=claimed.in_words(known))]
    for one in made.verdicts:
        own = [claim for claim in known if claim.verdict == one.verdict]
        heading = f"{one.sign} {one.verdict}"
        told = claimed.lines(own, from_page(place))
        parts.append(
            table(place, heading, told, claimed.AT_FIRST, anchor=slug(one.verdict), words=heading)
        )
    parts.append(
        text(
            place,
            "Verdicts of all presets; those above count each figure once, at the most demanding "
            "preset that was run, and leave out smoke, which tests the machinery.",
            heading="By figure",
        )
    )
    for figure in figures_of(board.claims()):
        parts.append(
            table(
                place,
                f"{figure.title} ({figure.name}, preset {figure.preset})",
                claimed.lines(figure.claims, from_page(place)),
                claimed.AT_FIRST,
                anchor=slug(figure.name, figure.preset),
                lead=claimed.in_words(figure.claims),
                folded=True,
            )
        )
    return Page(place, "Claims", tuple(parts))


def claim_pages(board: OpenBoard, claim: ClaimLine) -> Page:
    """One claim with all that its verdict rests on."""
    name = claim_id(claim)
    place = claim_page(name)
    shown = part(
        place,
        "claim",
        one=claimed.detail(board, claim),
        name=slug(name),
        number=claimed.as_number,
        to_record=to_record,
    )
    near = [("All claims", link("claims"))]
    near += [(task_label(task), link("task", task=task)) for task in claimed.tasks_of(claim)]
    return Page(place, claim.name, (text(place, title=claim.title), shown, links(place, near)))


def records_page(board: OpenBoard) -> Page:
    """A list of all records."""
    columns = ("run_id", "task", "preset", "model", "label", "role", "seed", "outcome", "origin")
    address = from_page(RECORDS)
    lines = [
        {"record": address(to_record(line[0], line[-1])), **dict(zip(columns, line, strict=True))}
        for task in board.tasks()
        for line in board.distinct("records", task, *columns)
    ]
    first = ("run_id", "task", "preset", "label", "seed", "outcome", "record")
    return Page(RECORDS, "Records", (table(RECORDS, "Records", lines, first),))


def record_pages(found: recorded.Record, models: Iterable[str]) -> Page:
    """One record, in full.

    Args:
        models: that have a page.
    """
    run_id, content = found.line.run_id, found.content
    place = record_page(run_id, found.line.origin)
    own = [("its model", to_model(found.line.model))] if found.line.model in models else []
    own += [("its table", to_table(found.row))] if found.row else []
    seeds = [(f"seed {one.seed}", to_record(one.run_id, one.origin)) for one in found.beside]
    checked = recorded.seed_lines(found, from_page(place))
    parts: list[Markup] = [
        text(place, title=run_id),
        links(place, own),
        links(place, seeds, "All seeds:"),
        part(place, "facts", facts=[*recorded.run_facts(found), *recorded.trust_facts(found)]),
        text(place, heading="Where it comes from"),
        part(place, "facts", facts=recorded.provenance_facts(content)),
        table(place, "How far each seed of its row was checked", checked),
        code(place, "The command that made it", content["provenance"]["command"]),
    ]
    if found.replications:
        heading = "Runs that repeat it, or that it repeats"
        parts.append(table(place, heading, recorded.again_lines(found.replications)))
    if tried := recorded.study_lines(content):
        parts.append(table(place, "Settings that its search tried", tried))
    parts += [
        links(place, [(claim.name, to_claim(claim)) for claim in found.claims], recorded.WHOSE_RUN),
        code(place, "Configuration", content["config"], folded=True),
        code(place, "The whole record, without curves and arrays", dict(content), folded=True),
    ]
    return Page(place, run_id, tuple(parts))
