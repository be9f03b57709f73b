"""The pages of the overview, of models, claims and records, by the functions that the app uses."""

from __future__ import annotations

from collections.abc import Container, Sequence

from leaderboards.contents import ClaimLine, OpenBoard
from leaderboards.render import task_label
from leaderboards.site import addresses
from leaderboards.site.addresses import CLAIMS, OVERVIEW, RECORDS, from_page
from leaderboards.site.parts import Item, Page, badge, html_of_parts, items
from leaderboards.views import claims
from leaderboards.views.figures import figures_of
from leaderboards.views.links import claim_id, link, slug, to_record
from leaderboards.views.models import model, model_page
from leaderboards.views.overview import Overview, overview_page
from leaderboards.views.parts import Links, Part, SortableTable, Text
from leaderboards.views.records import Record, record_page


def of_overview(
    board: OpenBoard, overview: Overview, tasks: Sequence[str], models: Sequence[tuple[str, str]]
) -> Page:
    """The first page, with lists of all others.

    Args:
        models: names and labels.
    """
    task_items = [(task_label(task), addresses.task_page(task), "") for task in tasks]
    model_items = [(label, addresses.model_page(name), "") for name, label in models]
    files: list[Item] = [
        ("CITATION.cff", "CITATION.cff", "of the project, with the hash of this board"),
        ("board.bib", "board.bib", "BibTeX of the whole board"),
        ("export.json", "export.json", "every file of this site with its hash"),
    ]
    texts = (
        "Each table has its own LaTeX and BibTeX on the page of its task, and each task its rows.",
        f"The board has the hash {board.sha256}.",
    )
    by_name = sorted(task_items, key=lambda item: item[0].lower())
    parts = (
        *html_of_parts(OVERVIEW, [overview_page(board, overview)]),
        items(OVERVIEW, "tasks", "Tasks", by_name),
        items(OVERVIEW, "models", "Models", model_items),
        items(OVERVIEW, "cite", "To cite", files, *texts),
    )
    return Page(OVERVIEW, "Memory bench", parts)


def of_model(board: OpenBoard, name: str) -> Page:
    """All that is known of one model."""
    place, shown = addresses.model_page(name), model(board, name)
    parts = html_of_parts(place, model_page(board, shown, from_page(place)))
    parts.append(badge(place, addresses.badge("models", name), shown.label))
    return Page(place, shown.label, tuple(parts))


def of_claims(board: OpenBoard, overview: Overview) -> Page:
    """Every claim by verdict, the contradicted first, then every one by figure and preset."""
    address, counted = from_page(CLAIMS), claims.counted(board)
    parts: list[Part] = [Text(title="Claims", lead=claims.in_words(counted))]
    for segment in overview.verdicts:
        lines = claims.lines([c for c in counted if c.verdict == segment.verdict], address)
        heading, anchor = f"{segment.sign} {segment.verdict}", slug(segment.verdict)
        parts.append(SortableTable(heading, lines, claims.AT_FIRST, anchor=anchor))
    note = (
        "Verdicts of all presets; those above count each figure once, at the most demanding "
        "preset that was run, and leave out smoke, which tests the machinery."
    )
    parts.append(Text((note,), heading="By figure"))
    for figure in figures_of(board.claims()):
        part = SortableTable(
            f"{figure.title} ({figure.name}, preset {figure.preset})",
            claims.lines(figure.claims, address),
            claims.AT_FIRST,
            lead=claims.in_words(figure.claims),
            anchor=slug(figure.name, figure.preset),
            folded=True,
        )
        parts.append(part)
    return Page(CLAIMS, "Claims", tuple(html_of_parts(CLAIMS, parts)))


def of_claim(board: OpenBoard, claim: ClaimLine) -> Page:
    """One claim with all that its verdict rests on."""
    place = addresses.claim_page(claim_id(claim))
    near = [("All claims", link("claims"))]
    near += [(task_label(task), link("task", task=task)) for task in claims.tasks_of(claim)]
    links = Links(tuple(near))
    parts = html_of_parts(place, [Text(title=claim.title), claims.claim_page(board, claim), links])
    return Page(place, claim.name, tuple(parts))


def of_records(board: OpenBoard) -> Page:
    """A list of all records."""
    columns = ("run_id", "task", "preset", "model", "label", "role", "seed", "outcome", "origin")
    address = from_page(RECORDS)
    lines = []
    for task in board.tasks():
        for values in board.distinct("records", task, *columns):
            line = dict(zip(columns, values, strict=True))
            record = address(to_record(line["run_id"], line["origin"]))
            lines.append({"record": record, **line})
    first_columns = ("run_id", "task", "preset", "label", "seed", "outcome", "record")
    parts = html_of_parts(RECORDS, [SortableTable("Records", lines, first_columns)])
    return Page(RECORDS, "Records", tuple(parts))


def of_record(shown: Record, models: Container[str]) -> Page:
    """One record, in full.

    Args:
        models: that have a page.
    """
    run_id = shown.line.run_id
    place = addresses.record_page(run_id, shown.line.origin)
    parts = html_of_parts(place, record_page(shown, models, from_page(place)))
    return Page(place, run_id, tuple(parts))
