"""The style sheet: the one owner of sizes and colours, on paper and on the board.

A trace says by its role what it stands for; here is what that looks like. Example::

    LOOKS["published"].line == "dashed" and LOOKS["published"].hollow
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Okabe and Ito's colours, which people with any colour vision tell apart.
PALETTE = {
    "blue": "#0072b2",
    "vermillion": "#d55e00",
    "green": "#009e73",
    "purple": "#cc79a7",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "black": "#1a1a1a",
    "brown": "#7a4a1e",  # not theirs; as far from all above, to any colour vision
    "grey": "#666666",
    "light": "#d9d9d9",
    "white": "#ffffff",
}
MODELS = ("blue", "vermillion", "green", "purple", "orange", "sky", "black")  # for any of them
UNNAMED = "brown"  # for a model whose card names none, such as a guest, and for no other
HEAT, CONTOUR = "cividis", "Greys"  # maps of colours, of matrices and of landscapes with paths

# Points, by what is written: the picture's title, a panel's, axes and subtitles, all the rest.
TITLE, PANEL, LABEL, SMALL = 11.0, 9.5, 8.5, 7.0

DASHES = {"solid": [1, 0], "dashed": [5, 2], "dotted": [1, 2], "dashdot": [6, 2, 1, 2]}


@dataclass(frozen=True)
class Look:
    """How the traces of a role are drawn: widths of lines and sizes of markers in points."""

    width: float = 1.6
    size: float = 5.0
    alpha: float = 1.0
    line: str = "solid"
    marker: str = "circle"
    hollow: bool = False
    colour: str = "blue"  # where the trace names none


LOOKS = {
    "measured": Look(),
    "emphasis": Look(width=2.4, size=6.0),
    "faint": Look(width=0.7, size=3.0, alpha=0.5),
    "published": Look(0.9, 4.5, 1.0, "dashed", "diamond", hollow=True, colour="grey"),
    "theory": Look(1.0, 4.0, 1.0, "dotted", "circle", hollow=True, colour="black"),
    "reference": Look(1.0, 4.0, 1.0, "dotted", "circle", colour="grey"),
}
SEED = Look(width=0.6, size=8.0, alpha=0.55)  # the line or tick of each seed
BAND = 0.15  # how opaque an interval behind a line is
WHISKER = 1.3  # width of an interval at a marker
BAR = 0.6  # of the room of a category
ASIDE = {"category": 0.12, "log": 1.05, "linear": 0.012}  # a step, by kind of axis


def hexadecimal(colour: str) -> str:
    """The colour of a palette name; what has none is a colour already."""
    return PALETTE.get(colour, colour)


def between(stops: Sequence[str], place: float) -> str:
    """The colour at a place from 0 to 1 along #rrggbb colours."""
    along = min(max(place, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(along), len(stops) - 2)
    share = along - first
    ends = stops[first : first + 2]
    pairs = (tuple(int(end[i : i + 2], 16) for end in ends) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)
