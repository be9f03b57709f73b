"""What is known of a task or model on a badge: SVG, and the JSON that shields.io asks for."""

from __future__ import annotations

import json
from typing import NamedTuple

from leaderboards.markup import markup
from leaderboards.render import PRESETS, shown_label, task_label
from leaderboards.site.tasks import TaskPages
from leaderboards.views.models import Model

SURE, OPEN, NOTHING = "#2e7d4f", "#8f6a0e", "#6b6b6b"  # as verdicts are coloured
WIDE = 7  # pixels of a letter at most
LONGEST = 60


class Badge(NamedTuple):
    """Two words with a colour."""

    label: str
    message: str
    colour: str

    def svg(self) -> bytes:
        """The badge as a picture."""
        left, right = (WIDE * len(words) + 10 for words in (self.label, self.message))
        return markup("badge.svg", left=left, right=right, **self._asdict()).encode()

    def endpoint(self) -> bytes:
        """What shields.io draws a badge from."""
        content = {"schemaVersion": 1, "label": self.label, "message": self.message}
        return json.dumps(content | {"color": self.colour}, indent=1).encode()


def of_task(task: TaskPages) -> Badge:
    """A badge that names who leads the table that the task opens on."""
    label = task_label(task.name)
    rows = task.tables[0].table.rows if task.tables else ()
    ahead = list(dict.fromkeys(shown_label(row) for row in rows if row.rank_best == 1))
    preset = f" ({rows[0].preset})" if rows else ""
    if len(ahead) == 1:
        return _badge(label, f"{ahead[0]} leads{preset}", SURE)
    if ahead:
        return _badge(label, f"{len(ahead)} may lead{preset}", OPEN)
    return _badge(label, f"no ranking{preset}" if rows else "not measured", NOTHING)


def of_model(model: Model) -> Badge:
    """How many ranked tables it leads or may lead, smoke left out."""
    ranked = [row for row in model.rows if row.rank_best and row.preset != PRESETS[0]]
    led = [row for row in ranked if row.rank_worst == 1]
    may = [row for row in ranked if row.rank_best == 1 and row.rank_worst != 1]
    if not ranked:
        return _badge(model.label, "not ranked", NOTHING)
    counts = [f"leads {len(led)}"] * bool(led or not may) + [f"may lead {len(may)}"] * bool(may)
    colour = SURE if led else OPEN if may else NOTHING
    return _badge(model.label, f"{', '.join(counts)} of {len(ranked)} tables", colour)


def _badge(label: str, message: str, colour: str) -> Badge:
    short = [text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in (label, message)]
    return Badge(short[0], short[1], colour)
