"""What the figures and tables on language share: their corpus, losses over seeds, intervals over
seeds and documents.

A corpus is never mixed with another one in a figure, and whatever is shown or judged says which one
it was: losses of another corpus, or in tokens of another tokenizer, cannot be compared with the
published ones.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.ground.errors import UserError
from bench.ground.statistics import Interval, half_width, mean_interval, over_seeds, seeds_needed
from bench.records.schema import RunRecord
from reproduce.drawing import style
from reproduce.drawing.style import GREY
from reproduce.judging.claims import LEVEL, UNDECIDED, Finding, Test, agreed, no_runs, place_of
from reproduce.judging.grammar import Ready, Rule, told
from reproduce.judging.observations import Sample, observe
from reproduce.judging.presets import of_published_scale
from reproduce.judging.reproduction import View
from reproduce.judging.verdicts import not_asked
from reproduce.regbench.regbench import published

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PAPER = "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394)"
GPT2 = "gpt2"
SEEDS = 3
BABISTORIES = "babistories"
# A loss after training -> its split; and as it was published, of random windows.
METRICS = {"train_loss": "training", "loss": "validation"}
PUBLISHED_METRICS = {"train_loss": "train_loss", "loss": "window_loss"}
# What a model loses that knows nothing of GPT-2's 50,257 tokens: the worst that a loss counts as.
UNINFORMED = math.log(50_257)
ROUNDING = 1e-9  # of losses and shares; equal numbers differ by less from their mean
FEW_DOCUMENTS = 10  # whose interval is called one of few: a bootstrap of them is rough


def runs_of(models: Sequence[str], seeds: int | None, *words: str) -> tuple[tuple[str, ...], ...]:
    """Words of single runs; seeds first, so that a stopped reproduction has whole comparisons."""
    return tuple(
        (words[0], f"models={model}", *words[1:], f"seed={seed}")
        for seed in range(seeds or SEEDS)
        for model in models
    )


def trained(records: Sequence[RunRecord]) -> list[RunRecord]:
    """All but the predictors without training."""
    return [record for record in records if record.role != "baseline"]


def of_one_corpus(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The records, sorted by run id.

    Raises:
        UserError: they are of different corpora.
    """
    ordered = sorted(records, key=lambda record: record.run_id)
    first: dict[str, tuple[object, RunRecord]] = {}
    for record in ordered:
        facts = record.arrays.get("corpus", {})
        seen = {split: (found["corpus"], found["tokens_sha256"]) for split, found in facts.items()}
        for key, value in {"corpus": corpus_name([record]), **seen}.items():
            other, one = first.setdefault(key, (value, record))
            if other != value:
                what = "corpora" if key == "corpus" else f"text in the split '{key}'"
                raise UserError(
                    f"{one.run_id} ({corpus_name([one])}) and {record.run_id} "
                    f"({corpus_name([record])}) are of different {what}, and one figure shows one "
                    "corpus: keep the records of one of them"
                )
    return ordered


def corpus_name(records: Sequence[RunRecord]) -> str:
    """The configured name: "grammar", "local", "babistories" or "tinystories"."""
    return str(records[0].config["tasks"]["corpus"])


def corpus_facts(records: Sequence[RunRecord]) -> dict[str, dict[str, Any]]:
    """Split -> name, licence, source, hash and counts, as the records hold them; a run that failed
    holds none."""
    facts: dict[str, dict[str, Any]] = {}
    for record in records:
        facts |= record.arrays.get("corpus", {})
    return facts


def corpus_line(records: Sequence[RunRecord]) -> str:
    """Such as "corpus: grammar (generated) · tokens of the grammar tokenizer"."""
    if not records:
        return "corpus: none"
    facts = corpus_facts(records)
    if "train" not in facts:
        return f"corpus: {corpus_name(records)}"
    parts = [_described(facts["train"])]
    if "articles" in facts and _described(facts["articles"]) not in parts:
        parts.append(f"articles: {_described(facts['articles'])}")
    return f"corpus: {' · '.join(parts)} · tokens of the {facts['train']['tokenizer']} tokenizer"


def _described(facts: Mapping[str, Any]) -> str:
    if facts["corpus"] == "grammar":
        return "grammar (generated)"
    digits = facts["tokens_sha256"][:8]
    return f"{facts['corpus']} ({facts['source']}, licence {facts['licence']}, sha256 {digits})"


def stating_corpus(test: Test) -> Test:
    """A test whose evidence begins with the corpus that it was found on."""

    def stated(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        finding = test(records, numbers)
        evidence = f"{corpus_line(records)}: {finding.evidence}"
        return dataclasses.replace(finding, evidence=evidence)

    return stated


def told_corpus(rule: Rule) -> Rule:
    """The rule with evidence that begins with the corpus it was found on."""
    return told(rule, before=lambda records: f"{corpus_line(records)}: ")


def at_published_scale(
    topic: str, of: Callable[[Sequence[RunRecord]], list[RunRecord]] = trained
) -> Ready:
    """Ready for published losses, the topic: those of another corpus or scale say nothing of them.

    Args:
        of: the runs whose settings have to be the published ones.
    """

    def ready(records: Sequence[RunRecord]) -> Finding | None:
        if not records or corpus_name(records) != BABISTORIES:
            reason = "losses of another corpus differ: use corpus=babistories preset=paper"
            return not_asked(topic, reason, "paper")
        if not all(map(of_published_scale, of(records))):
            reason = "losses of another scale differ: use preset=paper as it is"
            return not_asked(topic, reason, "paper")
        return None

    return ready


def metric(record: RunRecord, name: str) -> float | None:
    """A metric of the test split: of stories, the corpus's validation file."""
    return record.metrics.get("test", {}).get(name)


def losses(
    label: str,
    records: Sequence[RunRecord],
    value: Callable[[RunRecord], float | None],
    diverged: float | None = None,
) -> Sample:
    """A loss over seeds. Of a run that gave none it may have been anything up to that of a model
    that knows nothing; ``diverged`` as in :func:`reproduce.judging.observations.observe`."""
    return observe(label, records, value, bounds=(0.0, UNINFORMED), diverged=diverged)


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


def published_number(short: str, name: str, label: str) -> float | None:
    """The single number of a label; None where the run failed."""
    file = published(short)
    return file.read(file.metrics[name].values[label][0])[0]
