"""The verdicts of the board figure by figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from leaderboards.contents import ClaimLine
from leaderboards.render import PRESETS as BY_SCALE

PRESETS = BY_SCALE[::-1]  # the most demanding first


class Figure(NamedTuple):
    """The verdicts on one published figure at one preset."""

    name: str
    title: str
    preset: str
    claims: tuple[ClaimLine, ...]

    @property
    def anchor(self) -> str:
        """The place of these verdicts on the page of their task."""
        return re.sub(r"[^\w-]+", "-", f"{self.name}-{self.preset}")


def figures_of(claims: Iterable[ClaimLine]) -> list[Figure]:
    """Figures by name, figure 4 before figure 10; the most demanding preset of each first."""
    unsorted_figures = [
        Figure(name, title, preset, tuple(claims))
        for (name, title, preset), claims in groupby(
            claims, key=lambda claim: (claim.figure, claim.title, claim.preset)
        )
    ]
    return sorted(
        unsorted_figures, key=lambda figure: (_counted(figure.name), by_demand(figure.preset))
    )


def most_demanding(figures: Sequence[Figure]) -> list[Figure]:
    """Each figure once, at its most demanding preset."""
    return list({figure.name: figure for figure in reversed(figures)}.values())[::-1]


def by_demand(preset: str) -> tuple[int, str]:
    """The most demanding preset first, and after all of them those that somebody added."""
    return (PRESETS.index(preset) if preset in PRESETS else len(PRESETS)), preset


def _counted(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name.removeprefix(letters) or 0)
