"""Labels and looks of models, from the cards in their own YAML files.

A new model has both without an edit anywhere else. Example: the card of ``models/gpt2.yaml`` says
``label: GPT2`` and ``colour: vermillion``, so that GPT2 is vermillion in every figure and on the
board. Forms of one kind share a colour and differ by ``line`` and ``marker``. A model without a
colour in its card, as one of another package, has one that no card may name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, get_args

from bench.config.groups import NOT_COMMITTED, card, choices, guests, label_of_guest, model_groups
from core.errors import UserError, nearest
from reproduce.plotting.panels import Line, Marker
from reproduce.plotting.style import PALETTE, UNNAMED, between

HEXADECIMAL = re.compile("#[0-9a-fA-F]{6}")
# In the order of guests on a command line; the first is drawn like any other model.
LINES_OF_GUESTS = ("", "dashed", "dashdot", "dotted")
MARKERS_OF_GUESTS = ("", "square", "triangle", "diamond", "down")


class ModelLook(NamedTuple):
    """How a model is told from others; ``colour`` as #rrggbb, "" is as the role says."""

    colour: str
    line: str = ""
    marker: str = ""


@lru_cache(maxsize=256)
def model_card(name: str) -> dict[str, Any] | None:
    """The card of a model in any folder below ``models/``."""
    group = next((group for group in model_groups() if name in choices(group)), None)
    return None if group is None else card(group, name)


def label(name: str) -> str:
    """What a model is called: its card's label, or the class of another package. A guest is marked
    as not committed."""
    mark = f" ({NOT_COMMITTED})" if name in guests() else ""
    return f"{own_label(name)}{mark}"


def own_label(name: str) -> str:
    """The same without a mark: what a source may call it too."""
    return str((model_card(name) or {}).get("label", label_of_guest(name.rpartition(".")[2])))


def look(name: str) -> ModelLook:
    """The colour, line and marker of a model.

    Raises:
        UserError: its card has a look that cannot be drawn, in one sentence.
    """
    card_of_model = model_card(name)
    if card_of_model is None:  # several guests of one figure differ
        place = guests().index(name) if name in guests() else 0
        return ModelLook(
            PALETTE[UNNAMED],
            LINES_OF_GUESTS[place % len(LINES_OF_GUESTS)],
            MARKERS_OF_GUESTS[place % len(MARKERS_OF_GUESTS)],
        )
    chosen = str(card_of_model.get("colour", UNNAMED))
    if not HEXADECIMAL.fullmatch(chosen) and "colour" in card_of_model:
        _check(name, "colour", chosen, PALETTE.keys() - {UNNAMED, "white", "light"})
    line, marker = (str(card_of_model.get(key, "")) for key in ("line", "marker"))
    _check(name, "line", line, get_args(Line))
    _check(name, "marker", marker, get_args(Marker))
    return ModelLook(PALETTE.get(chosen, chosen), line, marker)


def _check(name: str, key: str, value: str, allowed: Iterable[str]) -> None:
    if value not in allowed:
        hint = nearest(value, filter(None, allowed))
        raise UserError(f"the card of the model '{name}' has the unknown {key} '{value}': {hint}")


def resolve(colour: str, default: str) -> ModelLook:
    """The look of a trace's ``colour``: a palette name, #rrggbb, a model, or "" for the default."""
    chosen = colour or default
    if chosen in PALETTE or chosen.startswith("#"):
        return ModelLook(PALETTE.get(chosen, chosen))
    return look(chosen)


def lighter(colour: str, steps: int) -> str:
    """A colour mixed with white, further with each step: a second setting of one model."""
    return between((colour, "#ffffff"), 1 - 0.7**steps)
