"""README's picture: every model by every question, a colour for the place between floor and oracle.

Example: ``png(picture(board))`` are the bytes of the file.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from leaderboards.contents import Board
from leaderboards.views.abilities.questions import (
    PRESET,
    AbilityQuestion,
    ModelAnswer,
    answers,
    families,
    questions,
)
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace

IMPROVING, ON_EDGE, NO_ORACLE = "↑", "e", "†"
CONTENT = "content"  # the PNG's text that holds the hash of what it shows
DARK = 0.55  # of the way along the map of colours; below it a number is white
ROW_HEIGHT = 0.2  # inches


def picture(board: Board) -> Picture:
    """The heat map of the questions of ``leaderboards/questions.yaml``."""
    columns = []
    for question in questions():
        columns.append({answer.row.model: answer for answer in answers(board, question)})
    lines = _lines(columns)
    places: list[list[float | None]] = []
    remarks = []
    for y, (_, model) in enumerate(lines):
        row: list[float | None] = []
        for x, answer_by_model in enumerate(columns):
            answer = answer_by_model.get(model)
            row.append(None if answer is None else min(max(answer.place, 0.0), 1.0))
            if answer is not None:
                colour = "white" if answer.place < DARK else "black"
                remarks.append(Remark(_text(answer), x=x, y=y, side="center", colour=colour))
        places.append(row)
    cells = Trace("place", x=range(len(columns)), y=range(len(lines)), z=places, mark="heat")
    panel = Panel(
        x=Axis(categories=[heading_of(question) for question in questions()]),
        y=Axis(categories=[name for name, _ in lines], inverted=True),
        z=Axis("from guessing (0) to the best possible (1)", limits=(0.0, 1.0)),
        traces=[cells],
        remarks=remarks,
    )
    return Picture(
        "Which model learns what from its context",
        [PanelRow([panel], height=ROW_HEIGHT * len(lines) + 0.6)],
        width=11.0,
        subtitle=f"Score on test at preset {PRESET}, models of {_sizes(columns)} parameters. "
        "Within a column all had the same steps; what was not run with them is empty. "
        "↓ less is better.",
        note=f"{IMPROVING} still improved when training ended: it may stand on a plateau. "
        f"{ON_EDGE} best learning rate on the edge of those tried. "
        "* longer training is known to change this column. "
        f"{NO_ORACLE} no oracle is known: the best row is 1.",
    )


def heading_of(question: AbilityQuestion) -> str:
    """What stands above its column, marked where its scale ends at the best row."""
    return question.heading if question.oracle else f"{question.heading} {NO_ORACLE}"


def png(heat_map: Picture) -> bytes:
    """The drawn picture, with the hash of what it shows."""
    from reproduce.plotting.renderer import images  # takes seconds, where nothing is drawn too

    information = PngInfo()
    information.add_text(CONTENT, _hash(heat_map))
    buffer = io.BytesIO()
    drawn = Image.open(io.BytesIO(images(heat_map, salt="abilities")["png"]))
    # A drawing of few colours: a quarter of the bytes, and no other look.
    drawn.convert("RGB").quantize(256).save(buffer, "PNG", pnginfo=information, optimize=True)
    return buffer.getvalue()


def is_drawn_in(path: Path, heat_map: Picture) -> bool:
    """Whether a file shows the picture, whichever library drew it."""
    if not path.exists():
        return False
    with Image.open(path) as drawn:
        return drawn.info.get(CONTENT) == _hash(heat_map)


def _hash(heat_map: Picture) -> str:
    return hashlib.sha256(heat_map.to_json()).hexdigest()


def _lines(columns: Sequence[Mapping[str, ModelAnswer]]) -> list[tuple[str, str]]:
    """(name, model) of each row of the picture, by family; a family's own line has no model."""
    measured: dict[str, None] = {}
    for column in columns:
        measured |= dict.fromkeys(column)
    models_by_family = families()
    named = set().union(*models_by_family.values())
    last = list(models_by_family)[-1]
    models_by_family[last] = [*models_by_family[last], *(m for m in measured if m not in named)]
    lines = []
    for family, models in models_by_family.items():
        lines.append((f"{family.upper()}", ""))
        lines += [(label(model), model) for model in models if model in measured]
    return lines


def _sizes(columns: Sequence[Mapping[str, ModelAnswer]]) -> str:
    """The smallest and the largest number of parameters, in thousands."""
    counts = []
    for column in columns:
        for answer in column.values():
            counts += [] if answer.row.parameters is None else [answer.row.parameters]
    return f"{min(counts) // 1000:,} to {-(-max(counts) // 1000):,} thousand" if counts else "no"


def _text(answer: ModelAnswer) -> str:
    assert answer.row.mean is not None
    marks = IMPROVING * answer.improving + ON_EDGE * answer.on_edge
    return f"{answer.row.mean:.2f} {marks}".rstrip()
