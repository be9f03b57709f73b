"""Labels and looks of models, from the cards in their own YAML files.

A new model has both without an edit anywhere else. Example: the card of ``models/gpt2.yaml`` says
``label: GPT2`` and ``colour: vermillion``, so that GPT2 is vermillion in every figure and on the
board. Forms of one kind share a colour and differ by ``line`` and ``marker``. A model without a
card, as one of another package, has a colour of the palette that depends on its name alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from pictures.style import MODELS, PALETTE, between
from settings.groups import NOT_COMMITTED, card, choices, guests, model_groups


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
    return str((model_card(name) or {}).get("label", name.rpartition(".")[2]))


def look(name: str) -> ModelLook:
    """The colour, line and marker of a model."""
    found = model_card(name) or {}
    by_name = MODELS[crc32(name.encode()) % len(MODELS)]
    chosen = str(found.get("colour", by_name))
    colour = PALETTE.get(chosen, chosen)
    return ModelLook(colour, str(found.get("line", "")), str(found.get("marker", "")))


def resolve(colour: str, default: str) -> ModelLook:
    """The look of a trace's ``colour``: a palette name, #rrggbb, a model, or "" for the default."""
    chosen = colour or default
    if chosen in PALETTE or chosen.startswith("#"):
        return ModelLook(PALETTE.get(chosen, chosen))
    return look(chosen)


def lighter(colour: str, steps: int) -> str:
    """A colour mixed with white, further with each step: a second setting of one model."""
    return between((colour, "#ffffff"), 1 - 0.7**steps)
