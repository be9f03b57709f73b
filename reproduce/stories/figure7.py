"""Figure 7: training on stories at several depths; the two architectures grow alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from bench.records.schema import RunRecord
from reproduce.judging.claims import (
    UNDECIDED,
    Claim,
    Finding,
    Tolerance,
    difference_above,
    every,
    mean_within,
)
from reproduce.judging.console import LeftOut
from reproduce.regbench.regbench import LABELS, MOSAIC
from reproduce.stories import depths, language
from reproduce.stories.depths import (
    MODELS,
    PUBLISHED_DEPTH,
    depths_of,
    lead,
    published_levels,
    sample,
)
from reproduce.stories.language import GPT2, METRICS, PUBLISHED_METRICS, UNINFORMED

TITLE = "Figure 7. Training on stories: Memory Mosaics and transformers of several depths"
SOURCE = f"{language.PAPER}, section 7, figure 7"
RELEASE_SOURCE = f"{SOURCE}; README of its released library (12 blocks)"
DEPTHS = {"smoke": (1, 2), "laptop": (1, 4), "gpu": (1, 8), "paper": (1, 8, 12, 18)}
EQUAL = (8, 12, 18)  # the depths at which the losses are said to be indistinguishable


def mosaic_is_ahead(
    records: Sequence[RunRecord], numbers: Mapping[str, float], depth: int
) -> Finding:
    """Lower validation loss at a depth."""
    if depth not in depths_of(records):
        return _no_depth(depth)
    theirs = sample(records, GPT2, depth, "loss")
    ours = sample(records, MOSAIC, depth, "loss", diverged=UNINFORMED)
    return difference_above(theirs, ours, numbers["margin"])


def losses_are_equal(
    records: Sequence[RunRecord], numbers: Mapping[str, float], depth: int
) -> Finding:
    """Training and validation loss of the two models differ by less than a tolerance."""
    if depth not in depths_of(records):
        return _no_depth(depth)
    pairs = [[sample(records, model, depth, metric) for model in MODELS] for metric in METRICS]
    bound = -numbers["tolerance"]
    finding = every(
        [partial(difference_above, a, b, bound) for x, y in pairs for a, b in ((x, y), (y, x))]
    )
    # Each difference is tested from both sides; it is told once.
    told = "; ".join(difference_above(y, x).evidence for x, y in pairs)
    return replace(finding, evidence=told) if finding.seeds else finding


def lead_shrinks(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The lead of one block over that of the most blocks."""
    found = depths_of(records)
    if len(found) < 2 or found[0] != 1:
        return Finding(UNDECIDED, "no runs at depth 1 and at another one", 0)
    deepest = found[-1]
    shallow, deep = lead(records, 1), lead(records, deepest)
    margin = numbers["margin"]
    finding = every(
        [
            partial(mean_within, shallow, margin, math.inf),
            partial(difference_above, shallow, deep, margin),
        ]
    )
    note = "" if deepest >= EQUAL[0] else f" ({deepest} is the deepest at this preset, not 8)"
    return replace(finding, evidence=f"{finding.evidence}{note}")


def loss_is_as_published(
    records: Sequence[RunRecord], numbers: Mapping[str, float], model: str
) -> Finding:
    """Training and validation loss of 12 blocks."""
    elsewhere = language.at_published_scale("published losses")(records)
    if elsewhere is not None:
        return elsewhere
    tests = []
    for metric, measured in PUBLISHED_METRICS.items():
        levels = published_levels(model, measured)
        low, high = min(levels) - numbers["tolerance"], max(levels) + numbers["tolerance"]
        found = sample(records, model, PUBLISHED_DEPTH, metric, measured=measured)
        tests.append(partial(mean_within, found, low, high))
    return every(tests)


def _no_depth(depth: int) -> Finding:
    reason = f"no runs of depth {depth} at this preset"
    return LeftOut(UNDECIDED, reason, 0, topic=f"depth = {depth}")


def ahead(depth: int, source: str) -> Claim:
    """The Mosaic's lead at a small depth."""
    blocks = "one block" if depth == 1 else f"{depth} blocks"
    return Claim(
        f"ahead at depth {depth}",
        source,
        f"With {blocks} the Memory Mosaic has a lower validation loss than the transformer.",
        Tolerance(
            "the transformer's loss minus the Mosaic's lies above {margin:g} with its whole 95 % "
            "interval over seeds",
            {"margin": 0.0},
        ),
        language.stating_corpus(partial(mosaic_is_ahead, depth=depth)),
    )


def equal(depth: int, source: str) -> Claim:
    """No difference at a large depth."""
    return Claim(
        f"equal at depth {depth}",
        source,
        f"With {depth} blocks the two have the same training and validation loss.",
        Tolerance(
            "both losses differ by less than {tolerance:g} nats, with the whole 95 % intervals "
            "over seeds (published at 12 blocks: 0.007 or less)",
            {"tolerance": 0.02},
        ),
        language.stating_corpus(partial(losses_are_equal, depth=depth)),
    )


def shrinking(source: str) -> Claim:
    """The lead disappears with depth, as far as a preset goes."""
    return Claim(
        "the lead disappears with depth",
        source,
        "The Mosaic's lead is that of shallow networks: with one block it is larger than with the "
        "most blocks that were trained.",
        Tolerance(
            "its lead in validation loss at depth 1, seed by seed, is above {margin:g} and by more "
            "than that larger than at the largest depth of the preset, with the whole 95 % "
            "intervals over seeds",
            {"margin": 0.0},
        ),
        language.stating_corpus(lead_shrinks),
    )


def _level(model: str) -> Claim:
    return Claim(
        f"losses of {LABELS[model]}, 12 blocks",
        RELEASE_SOURCE if model == MOSAIC else f"{language.PAPER}, appendix C, table 2",
        f"A {LABELS[model]} of 12 blocks reaches the published training and validation loss.",
        Tolerance(
            "the means over seeds, of random windows as published, lie within {tolerance:g} nats "
            "of the published losses with their whole 95 % intervals; on BabiStories only",
            {"tolerance": 0.02},
        ),
        partial(loss_is_as_published, model=model),
    )


REPRODUCTION = depths.reproduction(
    TITLE,
    SOURCE,
    DEPTHS,
    claims=(
        ahead(1, SOURCE),
        shrinking(SOURCE),
        *(equal(depth, SOURCE) for depth in EQUAL),
        *(_level(model) for model in MODELS),
    ),
)
