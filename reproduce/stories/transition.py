"""TRANSITION: the old words on language, until attention and prompts are in the grammar of claims;
this file goes then, and the line at the end of ``language.py`` that imports it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.ground.statistics import Interval, half_width, mean_interval, over_seeds, seeds_needed
from bench.records.schema import RunRecord
from reproduce.drawing import style
from reproduce.drawing.style import GREY
from reproduce.judging.claims import LEVEL, UNDECIDED, Finding, Test, agreed, no_runs, place_of
from reproduce.judging.observations import Sample
from reproduce.judging.reproduction import View
from reproduce.stories.language import corpus_line, trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-9
FEW_DOCUMENTS = 10


def stating_corpus(test: Test) -> Test:
    """A test whose evidence begins with the corpus that it was found on."""

    def stated(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        finding = test(records, numbers)
        evidence = f"{corpus_line(records)}: {finding.evidence}"
        return dataclasses.replace(finding, evidence=evidence)

    return stated


@dataclass(frozen=True)
class Documents:
    """How much a mean depends on which documents were drawn: its variance, without bias, and how
    many there are. A single one says nothing about the spread over documents."""

    variance: float
    count: int
    name: str = "documents"


def interval(
    groups: Sequence[Sequence[float]], documents: Documents | None, level: float = LEVEL
) -> tuple[float, Interval | None]:
    """Mean of the first group minus the means of the others, with an interval over new seeds and
    new documents.

    All runs are measured on the same documents, so the spread over seeds holds no spread over
    documents: the variances of the two add up. The quantile is Student's, with Welch and
    Satterthwaite's degrees of freedom of the sum.

    Args:
        groups: one number for each seed, of each group.
        documents: of this very difference, measured on the same documents.

    Returns:
        No interval for a single seed, for a single document, or where nothing varies: that the few
        values at hand are equal does not make the next one equal.
    """
    means = [math.fsum(group) / len(group) for group in groups]
    centre = means[0] - math.fsum(means[1:])
    if any(len(group) < 2 for group in groups) or (documents is not None and documents.count < 2):
        return centre, None
    parts = [over_seeds(_deviation(group), len(group)) for group in groups]
    half = half_width([*parts, *_fixed(documents)], level)
    return centre, Interval(centre - half, centre + half) if half > ROUNDING else None


def difference_within(
    samples: Sequence[Sample],
    documents: Documents | None,
    low: float = -math.inf,
    high: float = math.inf,
    level: float = LEVEL,
) -> Finding:
    """Is the mean of the first sample minus those of the others between ``low`` and ``high``?

    The whole interval over seeds and documents has to be inside for "reproduced" and outside for
    "contradicted", whatever a run without a number may have given.
    """
    if not all(sample.observations for sample in samples):
        return no_runs(*samples)
    verdict = agreed(
        place_of(interval(groups, documents, level)[1], low, high)
        for groups in itertools.product(*(sample.possibilities() for sample in samples))
    )
    failures = [clause for sample in samples for clause in sample.failures]
    count = min(len(sample.observations) for sample in samples)
    known = [sample.values for sample in samples]
    if not all(known):
        return Finding(verdict, "; ".join(failures), count)
    centre, found = interval(known, documents, level)
    means = [f"{s.label} {math.fsum(s.values) / len(s.values):.3f}" for s in samples]
    difference = f": difference {centre:+.3f}" if len(samples) > 1 else ""
    evidence = f"{', '.join(means)}{difference}{_in_words(found, known, documents, level)}"
    needed = None
    if verdict == UNDECIDED and not failures and found is not None:
        gap = min(abs(centre - edge) for edge in (low, high) if math.isfinite(edge))
        deviations = [_deviation(values) for values in known]
        needed = seeds_needed(*deviations, gap=gap, level=level, fixed=_fixed(documents))
    return Finding(verdict, "; ".join([evidence, *failures]), count, needed)


def _deviation(values: Sequence[float]) -> float:
    return mean_interval(values).deviation or 0.0


def _fixed(documents: Documents | None) -> list[tuple[float, int]]:
    """What more seeds make no smaller."""
    return [] if documents is None else [(documents.variance, documents.count - 1)]


def _in_words(
    found: Interval | None,
    groups: Sequence[Sequence[float]],
    documents: Documents | None,
    level: float,
) -> str:
    if found is not None:
        over = "" if documents is None else f" over seeds and {documents.count} {documents.name}"
        few = documents is not None and documents.count < FEW_DOCUMENTS
        caution = ", which are few" if few else ""
        return f" ({level:.0%} interval{over}{caution} {found.low:.3f} to {found.high:.3f})"
    if min(map(len, groups)) < 2:
        return " (one seed: no interval)"
    if documents is not None and documents.count < 2:
        return f" ({documents.count} of the {documents.name}: no interval)"
    return " (no spread at all: no interval)"


def frame(figure: Figure, title: str, records: Sequence[RunRecord], view: View) -> None:
    """The frame of every figure, and a line that says which corpus it shows."""
    style.frame(figure, title, trained(records), view)
    height = figure.get_figheight()
    left: dict[str, Any] = {"x": 0.01, "ha": "left", "va": "top"}
    text = corpus_line(records)
    figure.text(y=1 - 0.49 / height, s=text, fontsize=8, color=GREY, **left)
    engine = figure.get_layout_engine()
    assert engine is not None
    x, y, width, upper = engine.get()["rect"]
    figure.set_layout_engine("constrained", rect=(x, y, width, upper - 0.2 / height))
