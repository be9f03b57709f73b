"""The verdicts of the board figure by figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leaderboards.contents import ClaimLine
from leaderboards.render import CONTRADICTED
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
    """Figures by name, figure 4 before figure 10; the most demanding preset of each first. In each
    of them what contradicts a source stands before its other claims."""
    by_place: dict[tuple[str, str, str], list[ClaimLine]] = {}
    for claim in claims:
        by_place.setdefault((claim.figure, claim.title, claim.preset), []).append(claim)
    figures = [
        Figure(*place, tuple(sorted(of_figure, key=lambda claim: claim.verdict != CONTRADICTED)))
        for place, of_figure in by_place.items()
    ]
    return sorted(figures, key=_order)


def most_demanding(figures: Sequence[Figure]) -> list[Figure]:
    """Each figure once, at its most demanding preset."""
    return list({figure.name: figure for figure in reversed(figures)}.values())[::-1]


def counted_claims(claims: Iterable[ClaimLine]) -> list[ClaimLine]:
    """The claims that a headline counts: each figure at its most demanding preset, smoke not."""
    of_figures: list[ClaimLine] = []
    for figure in most_demanding(figures_of(claims)):
        if figure.preset != PRESETS[-1]:
            of_figures += figure.claims
    return of_figures


def by_demand(preset: str) -> tuple[int, str]:
    """The most demanding preset first, and after all of them those that somebody added."""
    return (PRESETS.index(preset) if preset in PRESETS else len(PRESETS)), preset


def _order(figure: Figure) -> tuple[str, int, tuple[int, str]]:
    letters = figure.name.rstrip("0123456789")
    return letters, int(figure.name.removeprefix(letters) or 0), by_demand(figure.preset)
